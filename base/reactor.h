// Sleeping until something happens to a file descriptor: a thin epoll, edge-triggered.
//
// The reactor raises flags that live with their owners, and the owner lowers a flag when an
// operation on the descriptor says "would block". It calls nobody but the owner's Waker, which
// takes a note: so the engine's loop stays a list of Poll() calls, and who has nothing to do need
// not be asked.
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

// What has happened to a descriptor since its owner last lowered the flag. Raised by Wait only.
struct Readiness {
  bool readable = false;
  bool writable = false;
  bool hangup =
      false;  // closed by the other side, or an error waits; reading and writing tell which
  Waker* waker = nullptr;  // woken by whatever happens; null: nobody
};

class Reactor {
 public:
  static absl::StatusOr<std::unique_ptr<Reactor>> Create();

  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Watches `fd` until Unwatch. A state that holds already is reported by the next Wait.
  // LIFETIME: `readiness` and `fd` until Unwatch. REQUIRES: fd not watched already.
  absl::Status Watch(int fd, Readiness* readiness);

  // REQUIRES: before `fd` is closed.
  void Unwatch(int fd);

  // Sleeps until a watched descriptor changes state or `timeout_ns` have passed (0: looks only;
  // negative: no limit). Returns how many descriptors changed: 0 after the time or a signal.
  int Wait(int64_t timeout_ns);

  // The descriptor that polls readable when Wait would find something, to nest this in another
  // loop.
  int fd() const { return epoll_.get(); }

 private:
  explicit Reactor(UniqueFd epoll) : epoll_(std::move(epoll)) {}

  UniqueFd epoll_;
  bool has_pwait2_ = true;
};

}  // namespace mccs

#endif  // MCCS_BASE_REACTOR_H_
