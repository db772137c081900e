// Waits for events of file descriptors: a thin layer over epoll, edge-triggered.
//
// The reactor sets flags that belong to the descriptors' owners. An owner clears a flag when an
// operation on the descriptor would block. The reactor calls only the owner's Waker, which records
// the call: so the engine's loop remains a list of Poll() calls and can skip idle objects.
//
// THREAD: one owner. Only Wait sleeps.
#ifndef MCCS_BASE_REACTOR_H_
#define MCCS_BASE_REACTOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "base/waker.h"

namespace mccs {

// Events of a descriptor since its owner last cleared the flags. Set by Wait only.
struct Readiness {
  bool readable = false;
  bool writable = false;
  bool hangup = false;     // closed by the peer, or an error is pending; a read or write returns it
  Waker* waker = nullptr;  // called for every event; null: none
};

class Reactor {
 public:
  static absl::StatusOr<std::unique_ptr<Reactor>> Create();

  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Watches `fd` until Unwatch. The next Wait reports a state that is already present.
  // LIFETIME: `readiness` and `fd` until Unwatch. REQUIRES: fd not watched already.
  absl::Status Watch(int fd, Readiness* readiness);

  // No effect if `fd` is not watched, as after a failed Watch. REQUIRES: before `fd` is closed.
  void Unwatch(int fd);

  // Sleeps until a watched descriptor changes state or `timeout_ns` have passed (0: does not sleep;
  // negative: no limit). Returns the number of descriptors that changed; 0 on timeout or a signal.
  int Wait(int64_t timeout_ns);

  // A descriptor that is readable when Wait would return events, to nest this in another loop.
  int fd() const { return epoll_.get(); }

 private:
  explicit Reactor(UniqueFd epoll) : epoll_(std::move(epoll)) {}

  UniqueFd epoll_;
  bool has_pwait2_ = true;
};

}  // namespace mccs

#endif  // MCCS_BASE_REACTOR_H_
