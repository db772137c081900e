// Signals as something to poll for, instead of handlers.
#ifndef MCCS_LAB_SIGNALS_H_
#define MCCS_LAB_SIGNALS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs::lab {

struct Signal {
  int number = 0;
  // The kernel sent it to the whole foreground group (Ctrl-C): our children in that group have it
  // as well.
  bool from_terminal = false;
};

// While it exists, SIGINT, SIGTERM, SIGHUP and SIGCHLD are blocked and come out of Take().
class SignalWatch {
 public:
  static absl::StatusOr<SignalWatch> Create();

  // Readable when there is something to take.
  int fd() const { return fd_.get(); }
  // The next signal that has arrived; nothing when there is none. Does not block.
  std::optional<Signal> Take();

 private:
  explicit SignalWatch(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace mccs::lab

#endif  // MCCS_LAB_SIGNALS_H_
