#include "lab/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace mccs::lab {

absl::StatusOr<SignalWatch> SignalWatch::Create() {
  sigset_t watched;
  sigemptyset(&watched);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&watched, number);
  if (sigprocmask(SIG_BLOCK, &watched, nullptr) != 0)
    return absl::ErrnoToStatus(errno, "cannot block signals");
  UniqueFd fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "cannot create a signal descriptor");
  return SignalWatch(std::move(fd));
}

std::optional<Signal> SignalWatch::Take() {
  signalfd_siginfo info{};
  if (read(fd_.get(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info)))
    return std::nullopt;
  return Signal{.number = static_cast<int>(info.ssi_signo),
                .from_terminal = info.ssi_code == SI_KERNEL};
}

}  // namespace mccs::lab
