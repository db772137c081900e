// The limits that the system sets to a daemon: file descriptors and lockable memory.
#ifndef MCCS_SERVICE_PROCESS_LIMITS_H_
#define MCCS_SERVICE_PROCESS_LIMITS_H_

#include "base/log.h"

namespace mccs {

// Raises the limit of lockable memory to the hard limit: RDMA locks memory.
void RaiseLockedMemory();

// The same, and the limit of file descriptors (one per connection, buffer and communicator). Logs a
// line if file descriptors are too few.
void RaiseProcessLimits(Log& log);

}  // namespace mccs

#endif  // MCCS_SERVICE_PROCESS_LIMITS_H_
