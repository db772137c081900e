// Starts one process.
#ifndef MCCS_LAB_SPAWN_H_
#define MCCS_LAB_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lab/environment.h"
#include "lab/host_identity.h"
#include "lab/lab_state.h"

namespace mccs::lab {

// Resolves `program` as a shell does: with a slash it is a path, otherwise PATH is searched.
// kNotFound, kPermissionDenied (found, but not executable).
absl::StatusOr<std::string> FindProgram(const std::string& program,
                                        const std::string& path_variable);

struct SpawnOptions {
  std::string file;                 // result of FindProgram
  std::vector<std::string> argv{};  // argv[0] included
  Environment environment{};
  // Descriptors that become 0, 1 and 2; negative: inherited.
  int input = -1;
  int output = -1;
  int error = -1;
  // Own process group: signals to the group reach the program's children; terminal signals do not
  // reach it.
  bool own_group = false;
  // NCCL programs distinguish hosts by name. With an empty name, or if the machine does not support
  // BecomeHost, the program sees the machine's identity.
  HostIdentity host{};
  // A node or virtual machine, which has its own identity.
  Place place{};
  // Signal that the program receives when the calling process dies.
  int death_signal = 0;
};

// In a virtual machine, the child stays and acts for the program (lab/vm_client.h), which has the
// same working directory as this process.
//
// ENSURES: on OK execve has succeeded; the program has no blocked or ignored signals and does not
// inherit descriptors above 2 that are marked close-on-exec. THREAD: the program's only thread; a
// death signal follows the thread that created the child.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

// The same for a background process: in its own group, without input. Its output is appended to
// the file, and it is killed when the calling process dies.
absl::StatusOr<pid_t> SpawnWithLog(SpawnOptions options, const std::string& log_path);

}  // namespace mccs::lab

#endif  // MCCS_LAB_SPAWN_H_
