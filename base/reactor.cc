#include "base/reactor.h"

#include <sys/epoll.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"

namespace mccs {
namespace {

// Events per Wait; the next Wait takes the rest.
constexpr int kEventsPerWait = 64;

int TimeoutMs(int64_t timeout_ns) {
  if (timeout_ns < 0) return -1;
  int64_t ms = timeout_ns / kNsPerMs + (timeout_ns % kNsPerMs != 0 ? 1 : 0);
  return ms > INT_MAX ? INT_MAX : static_cast<int>(ms);
}

void Raise(const epoll_event& event) {
  auto* readiness = static_cast<Readiness*>(event.data.ptr);
  const bool gone = (event.events & (EPOLLHUP | EPOLLERR)) != 0;
  if (gone || (event.events & EPOLLRDHUP) != 0) readiness->hangup = true;
  if (gone || (event.events & (EPOLLIN | EPOLLRDHUP)) != 0) readiness->readable = true;
  if (gone || (event.events & EPOLLOUT) != 0) readiness->writable = true;
  if (readiness->waker != nullptr) readiness->waker->Wake();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Reactor>> Reactor::Create() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return absl::ErrnoToStatus(errno, "epoll_create1");
  return std::unique_ptr<Reactor>(new Reactor(std::move(epoll)));
}

absl::Status Reactor::Watch(int fd, Readiness* readiness) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = readiness;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot watch descriptor ", fd));
  }
  return absl::OkStatus();
}

void Reactor::Unwatch(int fd) {
  MCCS_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0 || errno == ENOENT);
}

int Reactor::Wait(int64_t timeout_ns) {
  epoll_event events[kEventsPerWait];
  int count = -1;
  if (timeout_ns > 0 && has_pwait2_) {
    timespec timeout{.tv_sec = timeout_ns / kNsPerSec, .tv_nsec = timeout_ns % kNsPerSec};
    count = epoll_pwait2(epoll_.get(), events, kEventsPerWait, &timeout, nullptr);
    if (count < 0 && errno == ENOSYS) has_pwait2_ = false;  // Linux before 5.11
  }
  if (timeout_ns <= 0 || !has_pwait2_) {
    count = epoll_wait(epoll_.get(), events, kEventsPerWait, TimeoutMs(timeout_ns));
  }
  if (count < 0) {
    MCCS_CHECK(errno == EINTR);
    return 0;
  }
  for (int i = 0; i < count; ++i) Raise(events[i]);
  return count;
}

}  // namespace mccs
