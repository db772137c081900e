// The settings of a communicator: validated access to an ncclConfig_t of any version, and the
// environment's hints for the daemon (variables.h: Treatment::kHint). The operator's policy
// decides; `mccsctl describe communicator` shows the hints.
#ifndef MCCS_SHIM_CONFIG_COMM_CONFIG_H_
#define MCCS_SHIM_CONFIG_COMM_CONFIG_H_

#include <nccl.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs::shim {

// The value of `magic` in initialised configuration structures.
inline constexpr unsigned kConfigMagic = 0xcafebeef;

// Maximum of cgaClusterSize: blocks of a cluster, on any GPU.
inline constexpr int kMaxClusterSize = 8;

// A field of one of NCCL's configuration structures: undefined, or within [low, high].
struct ConfigField {
  const char* name;  // "ncclConfig_t.blocking"
  int value;
  int low;
  int high;
};

absl::Status CheckField(const ConfigField& field);
// Two fields that bound a number from below and above. REQUIRES: CheckField of each was ok.
absl::Status CheckBounds(const ConfigField& least, const ConfigField& most);

struct Hints {
  uint32_t min_channels = 0;  // 0: none
  uint32_t max_channels = 0;
  uint64_t buffer_bytes = 0;   // 0: none
  int32_t traffic_class = -1;  // -1: none
  int32_t service_level = -1;
  std::string algorithms;  // in the form of NCCL_ALGO: "ring,tree", "^nvls"
  std::string protocols;
};

// Ignores a value that is not a number or out of range, and logs it under NCCL_DEBUG=WARN.
Hints HintsOfEnvironment();

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
