// Executes a program in a virtual machine, on behalf of the calling process: its standard input,
// output and error, its signals and its exit status are those of the program.
//
// For children that Spawn (lab/spawn.h) has forked. THREAD: the program's only thread.
#ifndef MCCS_LAB_VM_CLIENT_H_
#define MCCS_LAB_VM_CLIENT_H_

#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "lab/vm_frames.h"

namespace mccs::lab {

// Starts the program in the virtual machine whose agent has `port` on 127.0.0.1. Returns 0 or an
// errno value.
int StartInVm(uint16_t port, const VmRequest& request, UniqueFd* connection);

// Forwards until the program has ended, and returns its exit status. If a signal killed the
// program, the same signal kills this process. SIGINT, SIGTERM and SIGHUP are forwarded. If this
// process ends before, the agent kills the program.
int FollowInVm(int connection);

}  // namespace mccs::lab

#endif  // MCCS_LAB_VM_CLIENT_H_
