// Memory shared with the daemon that streams and kernels of this process use.
//
// THREAD: any.
#ifndef MCCS_SHIM_CUDA_HOST_MEMORY_H_
#define MCCS_SHIM_CUDA_HOST_MEMORY_H_

#include "absl/status/statusor.h"
#include "base/shared_region.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// Registers the memory with CUDA, for all GPUs, and returns its address there. cuMemHostUnregister
// undoes it. Errors: kUnknown (a CUDA error), with `what` the memory is. REQUIRES: a context is
// current.
absl::StatusOr<CUdeviceptr> RegisterHostMemory(const DriverApi& driver, const SharedRegion& memory,
                                               const char* what);

// Keeps the memory mapped for the rest of the process: streams or the daemon may still use it.
void KeepMapped(SharedRegion memory);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_HOST_MEMORY_H_
