// Starts the virtual machines of a lab (lab/vms.h).
#ifndef MCCS_LAB_VM_LAUNCH_H_
#define MCCS_LAB_VM_LAUNCH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lab/lab_state.h"

namespace mccs::lab {

struct VmLaunch {
  std::vector<std::string> qemu;  // of PrepareVms
  std::vector<LabHost> hosts;
  std::string agent;  // program that has the agent (Products::lab)
  Environment environment;
};

// Starts one virtual machine per host. They boot while the caller continues, and end with this
// process. `paths`: the lab's directory, to which it writes their files. THREAD: the program's only
// thread.
absl::StatusOr<std::vector<VmState>> StartVms(const VmLaunch& launch, const LabPaths& paths);

}  // namespace mccs::lab

#endif  // MCCS_LAB_VM_LAUNCH_H_
