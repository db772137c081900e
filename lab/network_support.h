// Whether this machine can have a lab with a network.
#ifndef MCCS_LAB_NETWORK_SUPPORT_H_
#define MCCS_LAB_NETWORK_SUPPORT_H_

#include "absl/status/status.h"
#include "lab/network_tools.h"

namespace mccs::lab {

// Tries all that a fabric needs, in a node that is gone again on return. kUnimplemented names what
// is missing: privilege, or a part of the kernel.
absl::Status CheckNetworkSupport(const NetworkTools& tools);

}  // namespace mccs::lab

#endif  // MCCS_LAB_NETWORK_SUPPORT_H_
