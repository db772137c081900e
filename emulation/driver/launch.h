// Kernel launches, for streams and graphs.
#ifndef MCCS_EMULATION_DRIVER_LAUNCH_H_
#define MCCS_EMULATION_DRIVER_LAUNCH_H_

#include <optional>

#include "emulation/driver/entry.h"

namespace mccs::emulation {

// Finds the kernel's host version and copies the arguments. `session.gpu`: where it will run.
CUresult PrepareCall(const CallContext& session, CUfunction function, MccsEmulatedLaunch launch,
                     void** parameters, void** extra, std::optional<KernelCall>* call);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_DRIVER_LAUNCH_H_
