#include "base/hangup_thread.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "base/blocked_signals.h"

namespace mccs {
namespace {

sigset_t Hangup() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void HangupThread::Block() {
  const sigset_t set = Hangup();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

absl::StatusOr<std::unique_ptr<HangupThread>> HangupThread::Start(std::function<void()> on_hangup) {
  const sigset_t set = Hangup();
  UniqueFd signals(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  UniqueFd stop(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!signals.valid() || !stop.valid()) {
    return absl::UnavailableError("cannot wait for SIGHUP: no file descriptors are left");
  }
  return std::unique_ptr<HangupThread>(
      new HangupThread(std::move(signals), std::move(stop), std::move(on_hangup)));
}

HangupThread::HangupThread(UniqueFd signals, UniqueFd stop, std::function<void()> on_hangup)
    : signals_(std::move(signals)), stop_(std::move(stop)), on_hangup_(std::move(on_hangup)) {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { Run(); });
}

HangupThread::~HangupThread() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void HangupThread::Run() {
  for (;;) {
    pollfd fds[] = {{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                    {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    signalfd_siginfo signal;
    if (read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) on_hangup_();
  }
}

}  // namespace mccs
