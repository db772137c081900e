// Gives processes of a lab's host their own host name and an /etc/hosts that maps the names of all
// hosts of the lab to their addresses. The machine's own name and /etc/hosts do not change.
//
// Errors: kUnimplemented if the machine does not support it; the message names what is missing.
#ifndef MCCS_LAB_HOST_IDENTITY_H_
#define MCCS_LAB_HOST_IDENTITY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lab/lab_state.h"

namespace mccs::lab {

struct HostIdentity {
  std::string name;
  std::string hosts_file{};  // mounted over /etc/hosts; empty: the machine's is visible
};

// For something that this machine does not support. kUnimplemented: `what` and the text of errno.
absl::Status Unsupported(const std::string& what);

// The contents of `hosts_file` for hosts that share the machine's network: the lab's names, then
// `machines`, the machine's /etc/hosts.
std::string PlainHostsFile(const std::vector<LabHost>& hosts, const std::string& machines);

// REQUIRES: the calling process has its own UTS and mount namespaces.
// ENSURES: mounts of the calling process do not propagate to the machine; later unmounts of the
// machine propagate to the process.
absl::Status SetIdentity(const HostIdentity& identity);

// Moves the calling process to new UTS and mount namespaces, then takes the identity. Without
// CAP_SYS_ADMIN it also creates a user namespace that maps the user and group to themselves. After
// an error the process may be in some of the new namespaces. For children between fork and execve.
absl::Status BecomeHost(const HostIdentity& identity);

// Tests BecomeHost in a child process. THREAD: the program's only thread.
absl::Status CheckBecomeHost(const HostIdentity& identity);

}  // namespace mccs::lab

#endif  // MCCS_LAB_HOST_IDENTITY_H_
