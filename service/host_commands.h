// Commands of mccsd that print what this host has, and end: --check-gpus, --check-rdma,
// --print-topology, and --survey-gpus for mccsd itself.
//
// Each writes to standard output, and errors to standard error. Returns the exit status: 0 or 1.
// They block: for the disk, and for drivers.
#ifndef MCCS_SERVICE_HOST_COMMANDS_H_
#define MCCS_SERVICE_HOST_COMMANDS_H_

#include "service/config.h"
#include "service/gpus/gpu_problems.h"

namespace mccs {

// The host's GPUs, and what prevents or slows programs on them. 0: nothing does.
int CheckGpus(const Config& config);

// The host's RDMA devices, which of them are used, and what is missing for others. 0: RDMA can be
// used.
int CheckRdma(const Config& config);

// This host's entry for spec.hosts of a Topology.
int PrintTopology(const Config& config);

// The host's GPUs, as NVML reports them, for ChildGpuReader. NVML may hang: the daemon's end ends
// this process.
int SurveyGpus();

// The needs of the daemon's kernels and of its configuration.
GpuNeeds NeedsOf(const Config& config);

}  // namespace mccs

#endif  // MCCS_SERVICE_HOST_COMMANDS_H_
