// The host version of wire::kRunCommandsKernel, by which the daemon runs collectives.
#ifndef MCCS_EMULATION_CORE_COMMAND_KERNEL_H_
#define MCCS_EMULATION_CORE_COMMAND_KERNEL_H_

#include "emulation/include/mccs_emulation_kernel.h"

namespace mccs::emulation {

// All that it points to stays valid forever.
MccsEmulatedResumableKernel CommandKernel();

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_COMMAND_KERNEL_H_
