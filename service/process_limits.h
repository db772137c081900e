// The limits that the operating system sets to this process: raised where allowed, told where too
// low.
#ifndef MCCS_SERVICE_PROCESS_LIMITS_H_
#define MCCS_SERVICE_PROCESS_LIMITS_H_

#include "base/log.h"

namespace mccs {

// File descriptors (one per connection, buffer and communicator) are raised to the hard limit,
// which is the administrator's word; too few of them, or of lockable memory, are a line in the log.
void RaiseProcessLimits(Log& log);

}  // namespace mccs

#endif  // MCCS_SERVICE_PROCESS_LIMITS_H_
