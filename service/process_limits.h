// The operating system's limits for this process: raised where allowed, reported where too low.
#ifndef MCCS_SERVICE_PROCESS_LIMITS_H_
#define MCCS_SERVICE_PROCESS_LIMITS_H_

#include "base/log.h"

namespace mccs {

// Raises the limit of file descriptors (one per connection, buffer and communicator) to the hard
// limit. Logs a line if file descriptors or lockable memory are too few.
void RaiseProcessLimits(Log& log);

// Lets short sleeps of the calling thread end on time; the kernel's default adds 50 µs to each.
void SetTimerSlack();

}  // namespace mccs

#endif  // MCCS_SERVICE_PROCESS_LIMITS_H_
