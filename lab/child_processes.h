// Reaps and kills child processes, and receives signals through a descriptor instead of handlers.
#ifndef MCCS_LAB_CHILD_PROCESSES_H_
#define MCCS_LAB_CHILD_PROCESSES_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs::lab {

struct EndedChild {
  pid_t pid = 0;
  int wait_status = 0;  // of waitpid
};

// Returns all children that have ended since the last call. Does not block.
std::vector<EndedChild> ReapChildren();

// The exit status as in a shell: the status, or 128 + the number of the signal that killed it.
int ExitStatusOf(int wait_status);

// "exited with status 3", "killed by signal 9".
std::string DescribeEnd(int wait_status);

// Makes this process the subreaper: descendants whose parent ends become its children, and
// KillDescendants finds them.
void AdoptOrphans();

// A descriptor of the process, which becomes readable when it ends. Invalid: there is none.
UniqueFd OpenPidfd(pid_t pid);

// Kills all descendants of this process and waits for their end, a few seconds at most.
void KillDescendants();

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

#endif  // MCCS_LAB_CHILD_PROCESSES_H_
