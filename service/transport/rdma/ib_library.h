// libibverbs, loaded when it is first needed: a host without RDMA needs no RDMA packages.
//
// THREAD: any.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_IB_LIBRARY_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_IB_LIBRARY_H_

#include <infiniband/verbs.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs {

// The functions that are symbols of the library; others of its header are inline and call the
// device's own.
// clang-format off
#define MCCS_IB_FUNCTIONS(F)                                                                     \
  F(get_device_list) F(free_device_list) F(get_device_name) F(open_device) F(close_device)       \
  F(query_device) F(query_port) F(query_gid) F(alloc_pd) F(dealloc_pd) F(reg_mr) F(dereg_mr)     \
  F(create_comp_channel) F(destroy_comp_channel) F(create_cq) F(resize_cq) F(destroy_cq)         \
  F(get_cq_event) F(ack_cq_events) F(create_srq) F(destroy_srq) F(create_qp) F(modify_qp)        \
  F(destroy_qp) F(get_async_event) F(ack_async_event) F(event_type_str) F(port_state_str)
// clang-format on

struct IbLibrary {
#define MCCS_IB_MEMBER(name) decltype(&ibv_##name) name = nullptr;
  MCCS_IB_FUNCTIONS(MCCS_IB_MEMBER)
#undef MCCS_IB_MEMBER
  decltype(&ibv_modify_qp_rate_limit) modify_qp_rate_limit = nullptr;  // null: an older library
  decltype(&ibv_reg_dmabuf_mr) reg_dmabuf_mr = nullptr;  // null: the library is older than 34

  // kNotFound: libibverbs.so.1 or one of its functions is missing.
  static absl::StatusOr<const IbLibrary*> Get();
};

// Of an active MTU.
inline uint16_t MtuBytes(ibv_mtu mtu) { return static_cast<uint16_t>(128u << mtu); }

// Windows of type 2. Without them, a peer could write any memory that is registered for its tenant,
// until the queue pair of all lanes ends.
inline bool HasWindows(const ibv_device_attr& device) {
  return (device.device_cap_flags &
          (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0;
}
inline constexpr const char* kNoWindows =
    "it has no memory windows of type 2, by which the access of peers to memory ends; use another "
    "device, or `transport: tcp`";

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_IB_LIBRARY_H_
