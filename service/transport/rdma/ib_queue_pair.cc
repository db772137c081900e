#include <arpa/inet.h>

#include <algorithm>
#include <limits>

#include "service/transport/rdma/ib_nic.h"
#include "service/transport/rdma/ib_source_port.h"

namespace mccs {
namespace {

ibv_mtu MtuOf(uint16_t bytes) {
  int mtu = IBV_MTU_256;
  while (mtu < IBV_MTU_4096 && (256u << mtu) <= bytes) ++mtu;
  return static_cast<ibv_mtu>(mtu);
}

}  // namespace

absl::Status IbQueuePair::Initialize() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = nic_.attributes().port;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error = (nic_.library.modify_qp)(
      pair_.get(), &attributes,
      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return error == 0 ? absl::OkStatus() : Error("cannot initialize a queue pair", error);
}

absl::Status IbQueuePair::Connect(const QueuePairAddress& peer) {
  const NicAttributes& nic = nic_.attributes();
  ibv_qp_attr receive{};
  receive.qp_state = IBV_QPS_RTR;
  receive.path_mtu = MtuOf(std::min(nic.mtu_bytes, peer.mtu_bytes));
  receive.dest_qp_num = peer.number.value();
  receive.rq_psn = peer.first_packet;
  receive.max_dest_rd_atomic = 1;
  receive.min_rnr_timer = 12;  // 0.64 ms; the receive queue is never empty
  receive.ah_attr.port_num = nic.port;
  receive.ah_attr.dlid = peer.lid;
  receive.ah_attr.sl = nic_.options.service_level;
  receive.ah_attr.is_global = 1;
  std::memcpy(receive.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
  receive.ah_attr.grh.sgid_index = nic.gid_index;
  receive.ah_attr.grh.hop_limit = 64;
  receive.ah_attr.grh.traffic_class = options_.ip_traffic_class;
  if (nic.source_port_means == SourcePortMeans::kFlowLabel) {
    receive.ah_attr.grh.flow_label = FlowLabelFor(options_.source_port);
    source_port_ = PortOfFlowLabel(receive.ah_attr.grh.flow_label);
  }
  int error = (nic_.library.modify_qp)(pair_.get(), &receive,
                                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                           IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) return Error("cannot connect a queue pair", error);
  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.sq_psn = options_.first_packet;
  send.timeout = nic_.options.timeout;
  send.retry_cnt = nic_.options.retries;
  send.rnr_retry = 6;  // 7: no limit
  send.max_rd_atomic = 1;
  error =
      (nic_.library.modify_qp)(pair_.get(), &send,
                               IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error != 0) return Error("cannot connect a queue pair for sending", error);
  if (nic.source_port_means == SourcePortMeans::kNumber) source_port_ = PortOfNumber(number_);
  if (nic.source_port_means == SourcePortMeans::kModify && options_.source_port != 0 &&
      ModifySourcePort(pair_.get(), options_.source_port)) {
    source_port_ = options_.source_port;
  }
  return absl::OkStatus();
}

// Software keeps the rate anyway, so a device that refuses is no error.
void IbQueuePair::LimitRate(uint64_t bps) {
  constexpr uint64_t kKilobit = 1000;
  ibv_qp_rate_limit_attr limit{};
  limit.rate_limit = static_cast<uint32_t>(
      std::min<uint64_t>(bps / kKilobit, std::numeric_limits<uint32_t>::max()));
  nic_.library.modify_qp_rate_limit(pair_.get(), &limit);
}

void IbQueuePair::Fill(const WorkRequest& from, ibv_send_wr* to, ibv_sge* piece) const {
  to->wr_id = from.id;
  to->send_flags = from.signaled ? IBV_SEND_SIGNALED : 0;
  switch (from.kind) {
    case WorkRequest::Kind::kMessage:
      *piece = {.addr = reinterpret_cast<uintptr_t>(from.message.data()),
                .length = kMessageBytes,
                .lkey = 0};
      to->opcode = IBV_WR_SEND;
      to->send_flags |= IBV_SEND_INLINE;
      to->sg_list = piece;
      to->num_sge = 1;
      return;
    case WorkRequest::Kind::kWrite:
      *piece = {.addr = reinterpret_cast<uintptr_t>(from.local),
                .length = static_cast<uint32_t>(from.bytes),
                .lkey = from.local_key};
      to->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
      if (from.inlined) to->send_flags |= IBV_SEND_INLINE;
      to->sg_list = piece;
      to->num_sge = from.bytes > 0 ? 1 : 0;
      to->imm_data = htonl(from.immediate);
      to->wr.rdma.remote_addr = from.remote_address;
      to->wr.rdma.rkey = from.remote_key;
      return;
    case WorkRequest::Kind::kBind:
      to->opcode = IBV_WR_BIND_MW;
      to->bind_mw.mw = static_cast<IbWindow*>(from.window)->get();
      to->bind_mw.rkey = from.remote_key;
      to->bind_mw.bind_info = {.mr = static_cast<const IbRegion*>(from.region)->get(),
                               .addr = reinterpret_cast<uintptr_t>(from.local),
                               .length = from.bytes,
                               .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
      return;
    case WorkRequest::Kind::kInvalidate:
      to->opcode = IBV_WR_LOCAL_INV;
      to->invalidate_rkey = from.remote_key;
      // Earlier requests may still use it.
      to->send_flags |= IBV_SEND_FENCE;
      return;
  }
}

absl::Status IbQueuePair::Post(std::span<const WorkRequest> requests) {
  if (requests.empty()) return absl::OkStatus();
  requests_.assign(requests.size(), ibv_send_wr{});
  pieces_.assign(requests.size(), ibv_sge{});
  for (size_t i = 0; i < requests.size(); ++i) {
    Fill(requests[i], &requests_[i], &pieces_[i]);
    if (i + 1 < requests.size()) requests_[i].next = &requests_[i + 1];
  }
  nic_.CountRequests(requests.size());
  ibv_send_wr* failed = nullptr;
  const int error = ibv_post_send(pair_.get(), requests_.data(), &failed);
  if (error != 0) return Error("cannot post a work request", error);
  // The library reads a window's last key in the call.
  for (const WorkRequest& request : requests) {
    if (request.kind == WorkRequest::Kind::kBind)
      static_cast<IbWindow*>(request.window)->get()->rkey = request.remote_key;
  }
  return absl::OkStatus();
}

}  // namespace mccs
