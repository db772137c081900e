// A node of a lab's network: its own network, mount and UTS namespaces, held by a holder process
// that does nothing else. The namespaces have no names on the machine, so they disappear when the
// holder and all processes in them have ended.
//
// In a node, /sys shows the node's devices and /etc/hosts names the other nodes. Files, processes
// and users are shared.
//
// Errors: kUnimplemented if the machine does not support it; the message names what is missing.
#ifndef MCCS_LAB_NODE_H_
#define MCCS_LAB_NODE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lab/host_identity.h"

namespace mccs::lab {

// A setting below /proc/sys, with dots as sysctl(8) has it.
struct Sysctl {
  std::string name;
  std::string value;
  bool required = true;  // false: ignore kernels that lack the setting or the value
};

struct NodeOptions {
  HostIdentity identity;
  std::vector<Sysctl> sysctls;
};

// Starts the holder and returns its pid when the node is ready. The kernel kills the holder when
// this process dies. THREAD: the program's only thread.
absl::StatusOr<pid_t> StartNode(const NodeOptions& options);

// Moves the calling process into the node; its working directory keeps its path. Returns 0 or an
// errno value. For children between fork and execve.
int EnterNode(pid_t holder);

// Calls `work` with this process in the node's network namespace only, then returns to its own. For
// creating sockets. THREAD: the program's only thread.
absl::Status RunInNetworkOf(pid_t holder, absl::FunctionRef<absl::Status()> work);

}  // namespace mccs::lab

#endif  // MCCS_LAB_NODE_H_
