#include "base/sd_notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace mccs {

absl::Status SdNotify(const std::string& notify_socket, std::string_view message) {
  if (notify_socket.empty()) return absl::OkStatus();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (notify_socket.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "NOTIFY_SOCKET '", notify_socket, "' exceeds the length limit of a socket's path"));
  }
  std::memcpy(address.sun_path, notify_socket.data(), notify_socket.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';

  UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "cannot create a socket for NOTIFY_SOCKET");
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + notify_socket.size());
  const ssize_t sent = sendto(fd.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                              reinterpret_cast<const sockaddr*>(&address), length);
  if (sent != static_cast<ssize_t>(message.size())) {
    return absl::UnavailableError(absl::StrCat("cannot notify the service manager at '",
                                               notify_socket, "': ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace mccs
