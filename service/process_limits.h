// The limits that the system sets to a daemon: file descriptors, mappings and memory.
#ifndef MCCS_SERVICE_PROCESS_LIMITS_H_
#define MCCS_SERVICE_PROCESS_LIMITS_H_

#include "base/log.h"
#include "service/host_budget.h"

namespace mccs {

// Raises the limit of lockable memory to the hard limit: RDMA locks memory.
void RaiseLockedMemory();

// The same, and the limit of file descriptors (one per connection, buffer and communicator). Logs a
// line if file descriptors are too few.
void RaiseProcessLimits(Log& log);

// The limits that the system sets to this process, after RaiseProcessLimits and without what it
// needs for itself. `configured`: for all other resources. Bytes 0: half of the machine's memory
// for lanes, an eighth for plans, half of what this process may lock for NICs to pin, and
// HostLimits' default of the address space.
HostLimits LimitsOfMachine(HostLimits configured);

}  // namespace mccs

#endif  // MCCS_SERVICE_PROCESS_LIMITS_H_
