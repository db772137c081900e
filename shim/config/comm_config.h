// Validated access to an ncclConfig_t of any version.
#ifndef MCCS_SHIM_CONFIG_COMM_CONFIG_H_
#define MCCS_SHIM_CONFIG_COMM_CONFIG_H_

#include <nccl.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "shim/config/hints.h"

namespace mccs::shim {

// A communicator's settings from the caller's configuration and the environment.
struct CommConfig {
  bool blocking = true;
  Hints hints;
  std::string name;
  uint32_t warn_after_ms = 0;    // 0: the daemon's own setting
  bool check_pointers = false;   // buffers must be on the communicator's device
  bool launch_blocking = false;  // calls return when their streams complete
};

// `config` may be NULL: defaults. Newer NCCL versions add fields: fields that the caller's version
// lacks keep their defaults, and fields newer than this library's are ignored. As in NCCL,
// NCCL_COMM_BLOCKING overrides `blocking`, the environment's channels override the configuration's,
// and the configuration's traffic class overrides the environment's. Errors: kInvalidArgument,
// naming the field.
absl::StatusOr<CommConfig> ReadCommConfig(const ncclConfig_t* config);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CONFIG_COMM_CONFIG_H_
