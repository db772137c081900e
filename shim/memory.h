// ncclMemAlloc and ncclMemFree: device memory that every rank of the host's daemon can map.
//
// An ordinary allocation of the driver is exportable as it is (cuIpcGetMemHandle), so that is what
// a caller gets.
#ifndef MCCS_SHIM_MEMORY_H_
#define MCCS_SHIM_MEMORY_H_

#include <nccl.h>

#include <cstddef>

namespace mccs::shim {

// On the current device. ncclInvalidArgument: no place for the answer, or no bytes;
// ncclUnhandledCudaError: the driver's refusal. THREAD: any.
ncclResult_t AllocateMemory(void** memory, size_t bytes);
// NULL is accepted.
ncclResult_t FreeMemory(void* memory);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_MEMORY_H_
