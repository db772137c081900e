// A node of a lab's network: namespaces of its own for the network, the mounts and the host's name,
// held by a process that does nothing else. They have no names on the machine, so that nothing is
// left of them when the holder and whatever runs in them are gone.
//
// In a node, /sys shows the node's devices and /etc/hosts names the other nodes. All else is
// shared: files, processes, users.
//
// Errors: kUnimplemented where the machine does not allow it or lacks something, with what it is.
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
  bool required = true;  // false: a kernel without it, or without this value, will do
};

struct NodeOptions {
  HostIdentity identity;
  std::vector<Sysctl> sysctls;
};

// Starts the holder, which is killed when this process dies, and returns its id when the node is
// ready. THREAD: the one thread that this program has.
absl::StatusOr<pid_t> StartNode(const NodeOptions& options);

// The calling process becomes one of the node's, in the folder of the same path as before. Returns
// errno's value of what failed, or 0. For children between fork and execve.
int EnterNode(pid_t holder);

// Calls `work` with this process in the node's network alone, and comes back. For making sockets.
// THREAD: the one thread that this program has.
absl::Status InNetworkOf(pid_t holder, absl::FunctionRef<absl::Status()> work);

}  // namespace mccs::lab

#endif  // MCCS_LAB_NODE_H_
