#include "base/service_notification.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace mccs {

absl::Status NotifyServiceManager(const char* socket, std::string_view state) {
  if (socket == nullptr || *socket == '\0') return absl::OkStatus();
  const std::string_view name = socket;
  sockaddr_un address{};
  if ((name.front() != '/' && name.front() != '@') || name.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid NOTIFY_SOCKET \"", socket,
                     "\": expected an absolute path or @ and a name, of at most ",
                     sizeof(address.sun_path) - 1, " bytes"));
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  // The kernel's form of an abstract name; its length is that of the address.
  if (name.front() == '@') address.sun_path[0] = '\0';
  const socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());

  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return absl::UnavailableError(absl::StrCat("cannot create a socket: ", std::strerror(errno)));
  }
  if (sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&address), size) < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot send to NOTIFY_SOCKET ", socket, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace mccs
