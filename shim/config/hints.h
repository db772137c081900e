// Hints of the environment for the daemon (variables.h: Treatment::kHint). The operator's policy
// decides; `mccsctl describe communicator` shows the hints.
#ifndef MCCS_SHIM_CONFIG_HINTS_H_
#define MCCS_SHIM_CONFIG_HINTS_H_

#include <cstdint>
#include <string>

namespace mccs::shim {

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

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CONFIG_HINTS_H_
