// The identity of a lab's host on a machine that its hosts share: a host name, and an /etc/hosts
// that maps the names of all hosts of the lab to their addresses. The machine keeps its own name
// and its own /etc/hosts.
//
// Errors: kUnimplemented where the machine does not allow it, with what is missing.
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

// The contents of `hosts_file` for hosts that share the machine's network. Programs on them resolve
// the machine's own names, too: `machines` is its /etc/hosts. A name of the lab comes first.
std::string PlainHostsFile(const std::vector<LabHost>& hosts, const std::string& machines);

// REQUIRES: the calling process has a UTS and a mount namespace of its own.
// ENSURES: mounts of the calling process do not reach the machine; later unmounts of the machine
// reach the process.
absl::Status TakeIdentity(const HostIdentity& identity);

// Moves the calling process to a UTS and a mount namespace of its own, then takes the identity.
// Without CAP_SYS_ADMIN these are in a user namespace, where the process keeps its user and its
// group. After an error the process may have some of these namespaces. For children between fork
// and execve.
absl::Status BecomeHost(const HostIdentity& identity);

// Whether BecomeHost succeeds for children of this process. THREAD: the one thread that this
// program has.
absl::Status CheckBecomeHost(const HostIdentity& identity);

}  // namespace mccs::lab

#endif  // MCCS_LAB_HOST_IDENTITY_H_
