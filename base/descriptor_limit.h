// The limit of a process's file descriptors (RLIMIT_NOFILE).
#ifndef MCCS_BASE_DESCRIPTOR_LIMIT_H_
#define MCCS_BASE_DESCRIPTOR_LIMIT_H_

#include "base/log.h"

namespace mccs {

// Raises the limit to what a daemon or a controller of a large cluster needs, as far as the hard
// limit allows, and enlarges the table of descriptors, up to 2^20, so that no later call waits for
// it. Logs a line if descriptors are too few.
void RaiseDescriptorLimit(Log& log);

}  // namespace mccs

#endif  // MCCS_BASE_DESCRIPTOR_LIMIT_H_
