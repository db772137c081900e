// Notifications to the service manager that started this process, in the protocol of sd_notify(3):
// one datagram of lines to a Unix socket. MCCS does not link libsystemd, whose version and
// libraries differ between distributions.
#ifndef MCCS_BASE_SERVICE_NOTIFICATION_H_
#define MCCS_BASE_SERVICE_NOTIFICATION_H_

#include <string_view>

#include "absl/status/status.h"

namespace mccs {

// Sends `state`, for example "READY=1" or "STOPPING=1". `socket` is the value of NOTIFY_SOCKET: an
// absolute path, or "@" and an abstract name. OK without a service manager: `socket` is null or
// empty. kInvalidArgument: another kind of address. kUnavailable: the system call that failed and
// its reason. Blocks only while the manager's queue is full.
absl::Status NotifyServiceManager(const char* socket, std::string_view state);

}  // namespace mccs

#endif  // MCCS_BASE_SERVICE_NOTIFICATION_H_
