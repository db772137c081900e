// ncclCommProperties_t of NCCL 2.29 to 2.32, which the header of this build lacks.
#ifndef MCCS_SHIM_API_COMM_PROPERTIES_H_
#define MCCS_SHIM_API_COMM_PROPERTIES_H_

#include <cstddef>
#include <cstdint>

namespace mccs::shim {

// The layout is NCCL's. It grew over versions: the caller's `size` identifies its version's layout.
struct CommProperties {
  size_t size;
  unsigned magic;
  unsigned version;
  int rank;
  int ranks;
  int cuda_device;
  int nvml_device;
  bool device_api;
  bool multimem;
  int gin_type;
  int lsa_teams;
  bool host_rma;
  int railed_gin_type;
  uint64_t comm_hash;
  int gin_least_stride;
  int gin_connection_type;
  bool gin_support[64];
  size_t device_comm_bytes;
  bool cft;
  bool cft_multicast;
  bool cft_counted;
};
static_assert(offsetof(CommProperties, comm_hash) == 56);
static_assert(offsetof(CommProperties, device_comm_bytes) == 136);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_API_COMM_PROPERTIES_H_
