// The agent of a virtual machine: the first process of its user space, which executes programs for
// mccs-lab (lab/vm_client.h) until the machine is switched off.
//
// Each connection has one program and its own process of the agent. When the program ends, or the
// client closes the connection, the agent kills all descendants of the program.
#ifndef MCCS_LAB_VM_AGENT_H_
#define MCCS_LAB_VM_AGENT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace mccs::lab {

struct VmAgentOptions {
  uint16_t port = 0;       // on all addresses of the virtual machine
  std::string key_file;    // its first line is the key that requests need
  std::string ready_file;  // created when the agent accepts connections
};

// Returns only on an error.
// THREAD: the program's only thread.
absl::Status RunVmAgent(const VmAgentOptions& options);

// Serves one connection in the calling process, until the program has ended.
// THREAD: the program's only thread.
void ServeVmConnection(int connection, const std::string& key);

}  // namespace mccs::lab

#endif  // MCCS_LAB_VM_AGENT_H_
