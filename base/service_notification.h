// Notifications to the service manager that started this process, in the protocol of sd_notify(3):
// one datagram of lines to a Unix socket. MCCS does not link libsystemd, whose version and
// libraries differ between distributions.
#ifndef MCCS_BASE_SERVICE_NOTIFICATION_H_
#define MCCS_BASE_SERVICE_NOTIFICATION_H_

#include <sys/types.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs {

// Sends `state`, for example "READY=1" or "STOPPING=1". `socket` is the value of NOTIFY_SOCKET: an
// absolute path, or "@" and an abstract name. OK without a service manager: `socket` is null or
// empty. kInvalidArgument: another kind of address. kUnavailable: the system call that failed and
// its reason, or that the manager's queue is full and `if_full` is kDrop. kWait blocks meanwhile.
enum class IfFull { kWait, kDrop };
absl::Status NotifyServiceManager(const char* socket, std::string_view state,
                                  IfFull if_full = IfFull::kWait);

// The notification that a program with a watchdog is alive.
inline constexpr std::string_view kAlive = "WATCHDOG=1";

// The interval at which process `self` has to send kAlive: half of the time after which the service
// manager ends it. kNever: it has no watchdog. `usec` and `pid` are the values of WATCHDOG_USEC and
// WATCHDOG_PID, or null. kInvalidArgument: one of them is no number.
absl::StatusOr<int64_t> WatchdogInterval(const char* usec, const char* pid, pid_t self);

}  // namespace mccs

#endif  // MCCS_BASE_SERVICE_NOTIFICATION_H_
