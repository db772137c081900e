// Acts for a program that runs in a virtual machine: the calling process has the program's standard
// input, output and error, and ends as the program ends.
//
// For children that Spawn (lab/spawn.h) has forked. THREAD: the program's only thread.
#ifndef MCCS_LAB_VM_CLIENT_H_
#define MCCS_LAB_VM_CLIENT_H_

#include <cstdint>
#include <optional>

#include "base/unique_fd.h"
#include "lab/child_processes.h"
#include "lab/vm_frames.h"

namespace mccs::lab {

class VmClient {
 public:
  // Starts the program in the virtual machine whose agent has `port` on 127.0.0.1. Returns 0 or an
  // errno value.
  // ENSURES: SIGINT, SIGTERM and SIGHUP, from now on, are for the program.
  int Start(uint16_t port, const VmRequest& request);

  // Forwards until the program has ended, and returns its exit status. If a signal killed the
  // program, the same signal kills this process. If this process ends before, the agent kills the
  // program. REQUIRES: Start returned 0.
  int Follow();

 private:
  void ForwardSignals();
  // Sends one piece of the standard input. False: it has ended.
  bool ForwardInput();
  bool CanSend() const;

  UniqueFd connection_;
  std::optional<SignalWatch> signals_;
};

}  // namespace mccs::lab

#endif  // MCCS_LAB_VM_CLIENT_H_
