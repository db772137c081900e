// Checks whether this machine supports labs with a network.
#ifndef MCCS_LAB_NETWORK_SUPPORT_H_
#define MCCS_LAB_NETWORK_SUPPORT_H_

#include "absl/status/status.h"
#include "lab/network_tools.h"

namespace mccs::lab {

// Tries all operations that a fabric needs, in a temporary node. kUnimplemented: the message names
// the missing privilege or kernel feature.
absl::Status CheckNetworkSupport(const NetworkTools& tools);

}  // namespace mccs::lab

#endif  // MCCS_LAB_NETWORK_SUPPORT_H_
