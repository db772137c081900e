// ncclConfig_t of any version, read with care.
#ifndef MCCS_SHIM_COMM_CONFIG_H_
#define MCCS_SHIM_COMM_CONFIG_H_

#include <nccl.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace mccs::shim {

// What a communicator takes from the caller's configuration and the environment.
struct CommConfig {
  bool blocking = true;
  uint32_t min_channels = 0;  // hints; 0: none
  uint32_t max_channels = 0;
  int32_t traffic_class = -1;  // -1: none
  std::string name;
};

// `config` may be NULL: defaults. The structure grew over NCCL's versions; what the caller's
// version did not have is left at its default, and what a newer one added is ignored.
// NCCL_COMM_BLOCKING overrides `blocking`. Errors: kInvalidArgument, naming the field.
absl::StatusOr<CommConfig> ReadCommConfig(const ncclConfig_t* config);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_COMM_CONFIG_H_
