// ncclMemAlloc and ncclMemFree: device memory that the host's daemon can map, and that the program
// can share by its handle if the GPU has virtual memory (virtual_allocations.h); otherwise ordinary
// memory of cuMemAlloc.
#ifndef MCCS_SHIM_CALLS_MEMORY_H_
#define MCCS_SHIM_CALLS_MEMORY_H_

#include <nccl.h>

#include <cstddef>

namespace mccs::shim {

// On the current device. ncclInvalidArgument: output pointer is NULL, or no bytes;
// ncclUnhandledCudaError: the driver's error. THREAD: any.
ncclResult_t AllocateMemory(void** memory, size_t bytes);
// Also frees memory of cuMemAlloc. Accepts NULL. ncclUnhandledCudaError: the driver's error, for
// example for an address that is not, or no longer, the start of such memory. Waits for the
// daemon's release, at most as long as BufferExports::ReleaseRange.
ncclResult_t FreeMemory(void* memory);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CALLS_MEMORY_H_
