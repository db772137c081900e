// Signals as a descriptor to poll, instead of handlers.
#ifndef MCCS_LAB_SIGNALS_H_
#define MCCS_LAB_SIGNALS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs::lab {

struct Signal {
  int number = 0;
  // The kernel sent it to the whole foreground process group (Ctrl-C), so children in that group
  // received it as well.
  bool from_terminal = false;
};

// While it exists, SIGINT, SIGTERM, SIGHUP and SIGCHLD are blocked and returned by Take().
class SignalWatch {
 public:
  static absl::StatusOr<SignalWatch> Create();

  // Readable if a signal is pending.
  int fd() const { return fd_.get(); }
  // The next pending signal, if any. Does not block.
  std::optional<Signal> Take();

 private:
  explicit SignalWatch(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace mccs::lab

#endif  // MCCS_LAB_SIGNALS_H_
