// ncclMemAlloc and ncclMemFree: device memory that the host's daemon can map, and that the program
// itself can share by its handle, where the GPU has virtual memory (virtual_allocations.h).
// Elsewhere it is ordinary memory of cuMemAlloc.
#ifndef MCCS_SHIM_MEMORY_H_
#define MCCS_SHIM_MEMORY_H_

#include <nccl.h>

#include <cstddef>

namespace mccs::shim {

// On the current device. ncclInvalidArgument: no place for the answer, or no bytes;
// ncclUnhandledCudaError: the driver's refusal. THREAD: any.
ncclResult_t AllocateMemory(void** memory, size_t bytes);
// Also memory of cuMemAlloc. NULL is accepted. ncclUnhandledCudaError: the driver's refusal, as of
// an address that is no beginning of such memory, or not any more. Waits until the daemon has let
// go, at most as long as BufferExports::LetGo.
ncclResult_t FreeMemory(void* memory);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_MEMORY_H_
