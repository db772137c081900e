#include "base/service_notification.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace mccs {
namespace {

// WATCHDOG_USEC of a year and more is not a number either.
constexpr int64_t kMaxValue = int64_t{1} << 45;

absl::StatusOr<int64_t> ParsePositive(const char* variable, std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && value > 0 && value <= kMaxValue) return value;
  return absl::InvalidArgumentError(absl::StrCat("invalid ", variable, " \"", std::string(text),
                                                 "\": expected a number above 0"));
}

}  // namespace

absl::Status NotifyServiceManager(const char* socket, std::string_view state, IfFull if_full) {
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
  const int flags = MSG_NOSIGNAL | (if_full == IfFull::kDrop ? MSG_DONTWAIT : 0);
  if (sendto(fd.get(), state.data(), state.size(), flags,
             reinterpret_cast<const sockaddr*>(&address), size) < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot send to NOTIFY_SOCKET ", socket, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> WatchdogInterval(const char* usec, const char* pid, pid_t self) {
  if (usec == nullptr) return kNever;
  if (pid != nullptr) {
    MCCS_ASSIGN_OR_RETURN(const int64_t watched, ParsePositive("WATCHDOG_PID", pid));
    if (watched != self) return kNever;  // the variables are another process's
  }
  MCCS_ASSIGN_OR_RETURN(const int64_t timeout_us, ParsePositive("WATCHDOG_USEC", usec));
  return timeout_us * kNsPerUs / 2;
}

}  // namespace mccs
