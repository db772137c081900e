// Tells the service manager (systemd, Type=notify) how this program stands: one datagram to
// $NOTIFY_SOCKET.
#ifndef MCCS_BASE_SD_NOTIFY_H_
#define MCCS_BASE_SD_NOTIFY_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mccs {

// Sends `message` ("READY=1", "STOPPING=1", "STATUS=…", one a line) to the socket `notify_socket`:
// a path, or
// "@name" in the abstract namespace. main.cc hands in the value of NOTIFY_SOCKET.
// An empty `notify_socket` is nobody who wants to know: OK.
// THREAD: any. Does not block: a manager that does not read is kUnavailable.
absl::Status SdNotify(const std::string& notify_socket, std::string_view message);

}  // namespace mccs

#endif  // MCCS_BASE_SD_NOTIFY_H_
