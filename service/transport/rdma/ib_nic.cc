#include "service/transport/rdma/ib_nic.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include <cstdlib>

#include "base/check.h"
#include "base/status_macros.h"
#include "service/transport/rdma/ib_source_port.h"

namespace mccs {
namespace {

// Consumed receive entries are refilled when there are so many.
constexpr uint32_t kRefillAtOnce = 16;
constexpr int kPolledAtOnce = 64;
// Queue pairs that are made to find a number whose source port is near the wanted one: routes by
// ranges of ports are usually the same.
constexpr size_t kTriedNumbers = 64;
// The entries of one receive queue may need this part of the device's completion queue at most.
constexpr uint32_t kSharesOfCompletions = 8;
// wr_id of receives: this bit, the id of the receive queue, the entry in the lower half.
constexpr uint64_t kReceived = kIdLimit;

CompletionStatus StatusOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return CompletionStatus::kSuccess;
    case IBV_WC_WR_FLUSH_ERR:
      return CompletionStatus::kFlushed;
    case IBV_WC_LOC_PROT_ERR:
      return CompletionStatus::kLocalProtection;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_MW_BIND_ERR:
      return CompletionStatus::kLocalError;
    case IBV_WC_REM_ACCESS_ERR:
      return CompletionStatus::kRemoteAccess;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return CompletionStatus::kRemoteError;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return CompletionStatus::kRetriesExceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return CompletionStatus::kNotReady;
    default:
      return CompletionStatus::kFatal;
  }
}

}  // namespace

absl::Status ErrnoStatus(const std::string& what, int error) {
  const std::string text = absl::StrCat(what, ": ", std::strerror(error));
  if (error == ENOMEM || error == EAGAIN || error == ENOSPC) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::UnavailableError(text);
}

absl::Status RegisterStatus(const std::string& device, uint64_t bytes, int error) {
  const absl::Status failed = ErrnoStatus(
      absl::StrCat("RDMA device ", device, ": cannot register ", bytes, " bytes of memory"), error);
  if (!absl::IsResourceExhausted(failed)) return failed;
  return absl::ResourceExhaustedError(absl::StrCat(
      failed.message(), "; check the limit of locked memory (ulimit -l, LimitMEMLOCK)"));
}

namespace {

// Of connected queue pairs; mlx5, for example, only limits raw packets.
bool CanLimitRates(const IbLibrary& library, ibv_context* device) {
  ibv_device_attr_ex attributes{};
  // ibv_query_device_ex without its fallback, which would need the library at link time.
  verbs_context* const verbs = verbs_get_ctx_op(device, query_device_ex);
  return library.modify_qp_rate_limit != nullptr && verbs != nullptr &&
         verbs->query_device_ex(device, nullptr, &attributes, sizeof(attributes)) == 0 &&
         attributes.packet_pacing_caps.qp_rate_limit_max > 0 &&
         (attributes.packet_pacing_caps.supported_qpts & (1u << IBV_QPT_RC)) != 0;
}

}  // namespace

// ---- Opening ------------------------------------------------------------------------------------

IbNic::~IbNic() {
  if (channel_ != nullptr) reactor_.Unwatch(channel_->fd);
  if (device_ != nullptr) reactor_.Unwatch(device_->async_fd);
}

absl::Status IbNic::Open(const IbPort& port) {
  MCCS_RETURN_IF_ERROR(OpenDevice(port));
  MCCS_RETURN_IF_ERROR(MakeQueues());
  MCCS_RETURN_IF_ERROR(FindDmaBufs());
  for (const int fd : {channel_->fd, device_->async_fd}) {
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) {
      return Error("cannot make its event channel non-blocking");
    }
  }
  MCCS_RETURN_IF_ERROR(reactor_.Watch(channel_->fd, &completion_ready_));
  return reactor_.Watch(device_->async_fd, &event_ready_);
}

absl::Status IbNic::OpenDevice(const IbPort& port) {
  attributes_.device = port.device;
  attributes_.port = port.port;
  attributes_.gid_index = port.gid_index;
  int count = 0;
  ibv_device** const devices = (library.get_device_list)(&count);
  for (int i = 0; devices != nullptr && i < count; ++i) {
    if (port.device != (library.get_device_name)(devices[i])) continue;
    device_ = {(library.open_device)(devices[i]), library.close_device};
  }
  if (devices != nullptr) (library.free_device_list)(devices);
  if (device_ == nullptr) return Error("cannot open it");

  ibv_device_attr device{};
  if ((library.query_device)(device_.get(), &device) != 0) return Error("cannot query it");
  if (!HasWindows(device)) {
    return absl::FailedPreconditionError(
        absl::StrCat("RDMA device ", port.device, ": ", kNoWindows));
  }
  ibv_port_attr state{};
  if ((library.query_port)(device_.get(), port.port,
                           reinterpret_cast<_compat_ibv_port_attr*>(&state)) != 0) {
    return Error("cannot query its port");
  }
  if (state.state != IBV_PORT_ACTIVE) {
    return absl::UnavailableError(absl::StrCat("RDMA device ", port.device, " port ", port.port,
                                               ": it is ", (library.port_state_str)(state.state),
                                               "; bring its link up"));
  }
  ibv_gid gid{};
  if ((library.query_gid)(device_.get(), port.port, port.gid_index, &gid) != 0) {
    return Error(absl::StrCat("it has no GID with index ", port.gid_index));
  }
  std::memcpy(attributes_.gid.data(), gid.raw, attributes_.gid.size());
  attributes_.lid = state.lid;
  attributes_.mtu_bytes = MtuBytes(state.active_mtu);
  if (options.mtu_bytes != 0) {
    attributes_.mtu_bytes = std::min(attributes_.mtu_bytes, options.mtu_bytes);
  }
  if (state.link_layer != IBV_LINK_LAYER_INFINIBAND) {
    attributes_.source_port_means = SourcePortMeansOf(device_.get());
  }
  attributes_.inline_bytes = kMessageBytes;
  attributes_.rate_limits = CanLimitRates(library, device_.get());
  receive_entries_ = std::min({options.receive_entries, static_cast<uint32_t>(device.max_srq_wr),
                               static_cast<uint32_t>(device.max_cqe) / kSharesOfCompletions});
  return absl::OkStatus();
}

absl::Status IbNic::MakeQueues() {
  channel_ = {(library.create_comp_channel)(device_.get()), library.destroy_comp_channel};
  if (channel_ == nullptr) return Error("cannot make a completion channel");
  ibv_device_attr device{};
  (library.query_device)(device_.get(), &device);
  const int completions = std::min<int>(static_cast<int>(options.completions), device.max_cqe);
  completion_queue_ = {(library.create_cq)(device_.get(), completions, nullptr, channel_.get(), 0),
                       library.destroy_cq};
  if (completion_queue_ == nullptr) return Error("cannot make a completion queue");
  completion_entries_ = static_cast<uint32_t>(completion_queue_->cqe);
  polled_.resize(kPolledAtOnce);
  return absl::OkStatus();
}

absl::Status IbNic::FindDmaBufs() {
  Owned<ibv_pd> domain((library.alloc_pd)(device_.get()), library.dealloc_pd);
  if (domain == nullptr) return Error("cannot make a protection domain");
  attributes_.no_dma_bufs = WhyNoDmaBufs(library, domain.get());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ProtectionDomain>> IbNic::MakeDomain() {
  Owned<ibv_pd> domain((library.alloc_pd)(device_.get()), library.dealloc_pd);
  if (domain == nullptr) return Error("cannot make a protection domain");
  return std::make_unique<IbDomain>(*this, std::move(domain));
}

IbDomain::IbDomain(IbNic& nic, Owned<ibv_pd> domain)
    : nic_(nic), library_(nic.library), attributes_(nic.attributes()), domain_(std::move(domain)) {}

IbDomain::~IbDomain() {
  for (std::unique_ptr<IbReceiveQueue>& queue : receives_) nic_.End(std::move(queue));
}

absl::StatusOr<IbReceiveQueue*> IbDomain::Grant(uint32_t receives) {
  const auto free = [&](const IbReceiveQueue& queue) {
    const std::lock_guard lock(nic_.mutex());
    return queue.entries() - kRefillAtOnce - queue.granted;
  };
  if (receives_.empty() || free(*receives_.back()) < receives) {
    // An earlier one may have entries again.
    const auto found = std::ranges::find_if(
        receives_, [&](const auto& queue) { return free(*queue) >= receives; });
    if (found != receives_.end()) {
      std::swap(*found, receives_.back());
    } else {
      MCCS_ASSIGN_OR_RETURN(std::unique_ptr<IbReceiveQueue> made, nic_.MakeReceives(get()));
      receives_.push_back(std::move(made));
    }
  }
  const std::lock_guard lock(nic_.mutex());
  receives_.back()->granted += receives;
  return receives_.back().get();
}

// Filled before it is known to the engine.
absl::StatusOr<std::unique_ptr<IbReceiveQueue>> IbNic::MakeReceives(ibv_pd* domain) {
  const uint64_t id = [&] {
    const std::lock_guard lock(mutex_);
    return ++last_queue_;
  }();
  MCCS_ASSIGN_OR_RETURN(
      std::unique_ptr<IbReceiveQueue> queue,
      IbReceiveQueue::Make(library, domain, id, receive_entries_, attributes_.device));
  MCCS_RETURN_IF_ERROR(queue->Refill(1).status());
  MCCS_RETURN_IF_ERROR(ReserveCompletions(queue->entries()));
  const std::lock_guard lock(mutex_);
  receives_[id] = queue.get();
  return queue;
}

void IbNic::End(std::unique_ptr<IbReceiveQueue> queue) {
  {
    const std::lock_guard lock(mutex_);
    receives_.erase(queue->id());
  }
  ReturnCompletions(queue->entries());
}

absl::StatusOr<std::unique_ptr<IbReceiveQueue>> IbReceiveQueue::Make(const IbLibrary& library,
                                                                     ibv_pd* domain, uint64_t id,
                                                                     uint32_t entries,
                                                                     const std::string& device) {
  std::unique_ptr<IbReceiveQueue> made(new IbReceiveQueue(id, entries));
  made->region_ = {(library.reg_mr)(domain, made->messages_.data(),
                                    made->messages_.size() * kMessageBytes, IBV_ACCESS_LOCAL_WRITE),
                   library.dereg_mr};
  if (made->region_ == nullptr) {
    return RegisterStatus(device, entries * kMessageBytes, errno);
  }
  ibv_srq_init_attr attributes{};
  attributes.attr = {.max_wr = entries, .max_sge = 1, .srq_limit = 0};
  made->queue_ = {(library.create_srq)(domain, &attributes), library.destroy_srq};
  if (made->queue_ == nullptr) {
    return ErrnoStatus(absl::StrCat("RDMA device ", device, ": cannot make a shared receive queue"),
                       errno);
  }
  return made;
}

absl::StatusOr<size_t> IbReceiveQueue::Refill(size_t at_least) {
  const size_t count = used_.size();
  if (count < at_least) return 0;
  requests_.assign(count, ibv_recv_wr{});
  pieces_.assign(count, ibv_sge{});
  for (size_t i = 0; i < count; ++i) {
    pieces_[i] = {.addr = reinterpret_cast<uintptr_t>(messages_[used_[i]].data()),
                  .length = kMessageBytes,
                  .lkey = region_->lkey};
    requests_[i].wr_id = kReceived | id_ << 32 | used_[i];
    requests_[i].sg_list = &pieces_[i];
    requests_[i].num_sge = 1;
    if (i + 1 < count) requests_[i].next = &requests_[i + 1];
  }
  used_.clear();
  ibv_recv_wr* failed = nullptr;
  // It has room for all entries, always.
  const int error = ibv_post_srq_recv(queue_.get(), requests_.data(), &failed);
  if (error != 0) return ErrnoStatus("cannot refill a receive queue", error);
  return count;
}

absl::StatusOr<std::unique_ptr<QueuePair>> IbNic::MakeQueuePair(
    ProtectionDomain& domain, const QueuePairOptions& pair_options) {
  auto& own = static_cast<IbDomain&>(domain);
  MCCS_RETURN_IF_ERROR(ReserveCompletions(pair_options.requests));
  absl::StatusOr<IbReceiveQueue*> receives = own.Grant(pair_options.receives);
  if (!receives.ok()) {
    ReturnCompletions(pair_options.requests);
    return receives.status();
  }
  Owned<ibv_qp> made = CreateQueuePair(own.get(), (*receives)->get(), pair_options);
  if (made == nullptr) {
    const absl::Status why = Error("cannot make a queue pair");
    ReturnCompletions(pair_options.requests);
    const std::lock_guard lock(mutex_);
    (*receives)->granted -= pair_options.receives;
    return why;
  }
  auto pair = std::make_unique<IbQueuePair>(*this, std::move(made), pair_options, **receives);
  MCCS_RETURN_IF_ERROR(pair->Initialize());
  return pair;
}

Owned<ibv_qp> IbNic::CreateQueuePair(ibv_pd* domain, ibv_srq* receives,
                                     const QueuePairOptions& pair_options) {
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = attributes.recv_cq = completion_queue_.get();
  attributes.srq = receives;
  attributes.cap.max_send_wr = pair_options.requests;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_inline_data = kMessageBytes;
  const auto create = [&] {
    return Owned<ibv_qp>((library.create_qp)(domain, &attributes), library.destroy_qp);
  };
  Owned<ibv_qp> made = create();
  const int wanted = pair_options.source_port;
  if (wanted == 0 || attributes_.source_port_means != SourcePortMeans::kNumber) return made;
  // The device gives each its next number, so one in 16,384 has the port itself.
  const auto distance = [&](const ibv_qp& pair) {
    return std::abs(PortOfNumber(QueuePairNumber(pair.qp_num)) - wanted);
  };
  std::vector<Owned<ibv_qp>> others;  // exist until the end, so that all numbers differ
  for (size_t i = 0; i < kTriedNumbers && made != nullptr && distance(*made) > 0; ++i) {
    Owned<ibv_qp> next = create();
    if (next == nullptr) break;
    if (distance(*next) < distance(*made)) std::swap(made, next);
    others.push_back(std::move(next));
  }
  return made;
}

IbQueuePair::~IbQueuePair() {
  pair_.reset();
  nic_.ReturnCompletions(options_.requests);
  const std::lock_guard lock(nic_.mutex());
  receives_.granted -= options_.receives;
}

// ---- Completions --------------------------------------------------------------------------------

// An overflow would end the whole device for this daemon. Each request may complete, when a queue
// pair fails, and each consumed receive entry does.
absl::Status IbNic::ReserveCompletions(uint32_t count) {
  const std::lock_guard lock(resize_mutex_);
  const uint32_t needed = reserved_completions_ + count;
  const uint32_t have = completion_entries_;
  if (needed > have) {
    ibv_device_attr device{};
    (library.query_device)(device_.get(), &device);
    const int wanted =
        std::max(static_cast<int>(needed), std::min(static_cast<int>(2 * have), device.max_cqe));
    const int error = (library.resize_cq)(completion_queue_.get(), wanted);
    if (error != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("RDMA device ", attributes_.device, ": its completion queue has ", have,
                       " entries, and cannot get ", wanted, ": ", std::strerror(error)));
    }
    completion_entries_ = static_cast<uint32_t>(completion_queue_->cqe);
  }
  reserved_completions_ = needed;
  return absl::OkStatus();
}

void IbNic::ReturnCompletions(uint32_t count) {
  const std::lock_guard lock(resize_mutex_);
  reserved_completions_ -= count;
}

void IbNic::Refill(IbReceiveQueue& queue, size_t at_least) {
  const absl::StatusOr<size_t> refilled = queue.Refill(at_least);
  if (!refilled.ok()) return FailDevice(std::string(refilled.status().message()));
  counters_.refills += *refilled > 0 ? 1 : 0;
  counters_.receives += *refilled;
}

void IbNic::FailDevice(const std::string& what) {
  if (!std::exchange(failed_, true)) failure_ = what;
}

size_t IbNic::Poll(std::span<Completion> completions) {
  if (failed_) return 0;
  const int most = static_cast<int>(std::min(completions.size(), polled_.size()));
  const int count = ibv_poll_cq(completion_queue_.get(), most, polled_.data());
  if (count < 0) FailDevice("its completion queue cannot be polled");
  if (count <= 0) return 0;
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < count; ++i) {
    completions[static_cast<size_t>(i)] = Convert(polled_[static_cast<size_t>(i)]);
  }
  counters_.completions += static_cast<uint64_t>(count);
  return static_cast<size_t>(count);
}

Completion IbNic::Convert(const ibv_wc& from) {
  Completion to;
  to.status = StatusOf(from.status);
  to.vendor_error = from.vendor_err;
  to.queue_pair = QueuePairNumber(from.qp_num);
  if ((from.wr_id & kReceived) == 0) {
    to.kind = Completion::Kind::kRequest;
    to.id = from.wr_id;
    return to;
  }
  const bool failed = from.status != IBV_WC_SUCCESS;
  const bool written = !failed && from.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
  to.kind = failed    ? Completion::Kind::kReceiveFailed
            : written ? Completion::Kind::kWritten
                      : Completion::Kind::kMessage;
  to.bytes = failed ? 0 : from.byte_len;
  if (written) to.immediate = ntohl(from.imm_data);
  const auto queue = receives_.find((from.wr_id & ~kReceived) >> 32);
  if (queue == receives_.end()) return to;  // its domain has ended, and its queue pairs before
  queue->second->Take(static_cast<uint32_t>(from.wr_id),
                      to.kind == Completion::Kind::kMessage ? from.byte_len : 0, &to.message);
  Refill(*queue->second, kRefillAtOnce);
  return to;
}

std::optional<VerbsEvent> IbNic::TakeEvent() {
  if (failure_.has_value()) {
    return VerbsEvent{.kind = VerbsEvent::Kind::kDevice,
                      .queue_pair = {},
                      .text = *std::exchange(failure_, std::nullopt)};
  }
  if (!event_ready_.readable && !event_ready_.hangup) return std::nullopt;
  ibv_async_event event;
  if ((library.get_async_event)(device_.get(), &event) != 0) {
    event_ready_.readable = event_ready_.hangup = false;
    return std::nullopt;
  }
  VerbsEvent result;
  result.text = (library.event_type_str)(event.event_type);
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      result.kind = VerbsEvent::Kind::kQueuePair;
      result.queue_pair = QueuePairNumber(event.element.qp->qp_num);
      break;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      result.kind = VerbsEvent::Kind::kDrained;
      result.queue_pair = QueuePairNumber(event.element.qp->qp_num);
      break;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
      result.kind = event.element.port_num != attributes_.port ? VerbsEvent::Kind::kOther
                    : event.event_type == IBV_EVENT_PORT_ERR   ? VerbsEvent::Kind::kPortDown
                                                               : VerbsEvent::Kind::kPortUp;
      break;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
      result.kind = VerbsEvent::Kind::kDevice;
      failed_ = true;
      break;
    default:
      result.kind = VerbsEvent::Kind::kOther;
      break;
  }
  (library.ack_async_event)(&event);
  return result;
}

void IbNic::Arm() {
  if (failed_) return;
  if (completion_ready_.readable) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    while ((library.get_cq_event)(channel_.get(), &queue, &context) == 0) {
      (library.ack_cq_events)(queue, 1);
    }
    completion_ready_.readable = false;
  }
  if (ibv_req_notify_cq(completion_queue_.get(), 0) != 0) {
    FailDevice("its completion queue cannot be armed");
  }
}

absl::StatusOr<std::unique_ptr<VerbsNic>> OpenIbNic(const IbPort& port, Reactor& reactor,
                                                    const IbNicOptions& options) {
  MCCS_ASSIGN_OR_RETURN(const IbLibrary* const library, IbLibrary::Get());
  auto nic = std::make_unique<IbNic>(*library, reactor, options);
  MCCS_RETURN_IF_ERROR(nic->Open(port));
  return nic;
}

}  // namespace mccs
