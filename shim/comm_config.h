// ncclConfig_t of any version, read with care.
#ifndef MCCS_SHIM_COMM_CONFIG_H_
#define MCCS_SHIM_COMM_CONFIG_H_

#include <nccl.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "shim/hints.h"

namespace mccs::shim {

// What a communicator takes from the caller's configuration and the environment.
struct CommConfig {
  bool blocking = true;
  Hints hints;
  std::string name;
  uint32_t warn_after_ms = 0;    // 0: the daemon's own
  bool check_pointers = false;   // buffers must be on the communicator's device
  bool launch_blocking = false;  // calls return when their streams are done
};

// `config` may be NULL: defaults. The structure grew over NCCL's versions; what the caller's
// version did not have is left at its default, and what a newer one added is ignored.
// NCCL_COMM_BLOCKING overrides `blocking`, the environment's channels override the configuration's,
// and the configuration's traffic class the environment's, as in NCCL. Errors: kInvalidArgument,
// naming the field.
absl::StatusOr<CommConfig> ReadCommConfig(const ncclConfig_t* config);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_COMM_CONFIG_H_
