// Reports this program's state to the service manager (systemd, Type=notify): one datagram to
// $NOTIFY_SOCKET.
#ifndef MCCS_BASE_SD_NOTIFY_H_
#define MCCS_BASE_SD_NOTIFY_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mccs {

// Sends `message` ("READY=1", "STOPPING=1", "STATUS=…", one per line) to the socket
// `notify_socket`: a path, or "@name" in the abstract namespace; main.cc passes the value of
// NOTIFY_SOCKET. Returns OK if it is empty.
// THREAD: any. Does not block. kUnavailable: the manager does not read.
absl::Status SdNotify(const std::string& notify_socket, std::string_view message);

}  // namespace mccs

#endif  // MCCS_BASE_SD_NOTIFY_H_
