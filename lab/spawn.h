// Starts one process.
#ifndef MCCS_LAB_SPAWN_H_
#define MCCS_LAB_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lab/environment.h"
#include "lab/host_identity.h"

namespace mccs::lab {

// The file that `program` means, by a shell's rules: with a slash it is a path, otherwise PATH is
// searched. kNotFound, kPermissionDenied (found, but not executable).
absl::StatusOr<std::string> FindProgram(const std::string& program,
                                        const std::string& path_variable);

struct SpawnOptions {
  std::string file;                 // of FindProgram
  std::vector<std::string> argv{};  // argv[0] included
  Environment environment{};
  // Descriptors that become 0, 1 and 2; negative inherits ours.
  int input = -1;
  int output = -1;
  int error = -1;
  // A group of its own: signals to it reach the children that it makes, and the terminal's do not.
  bool own_group = false;
  // NCCL programs distinguish hosts by their names. An empty name means the machine's identity,
  // which the program also sees where the machine does not allow another one (CheckBecomeHost).
  HostIdentity host{};
  // The holder of the node (lab/node.h) that the program runs in, with the node's identity. 0:
  // none.
  pid_t node = 0;
  // Sent to it when the calling process dies.
  int death_signal = 0;
};

// ENSURES: on OK the program itself runs (execve has succeeded), with no signal blocked or ignored
// and no descriptor of ours above 2 that is marked close-on-exec. THREAD: the one thread that this
// program has: a death signal follows the thread that made the child.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

}  // namespace mccs::lab

#endif  // MCCS_LAB_SPAWN_H_
