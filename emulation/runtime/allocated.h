// Shared by the runtime's allocating functions.
#ifndef MCCS_EMULATION_RUNTIME_ALLOCATED_H_
#define MCCS_EMULATION_RUNTIME_ALLOCATED_H_

#include "emulation/runtime/entry.h"

namespace mccs::emulation {

// Runs `allocate(CUdeviceptr*)` and stores the address; for 0 bytes it stores a null pointer.
template <typename Allocate>
cudaError_t Allocated(void** address, size_t bytes, Allocate allocate) {
  if (address == nullptr) return Report(cudaErrorInvalidValue);
  *address = nullptr;
  return WithContext([&] {
    if (bytes == 0) return CUDA_SUCCESS;
    CUdeviceptr pointer = 0;
    const CUresult result = allocate(&pointer);
    if (result == CUDA_SUCCESS) *address = reinterpret_cast<void*>(pointer);
    return result;
  });
}

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_RUNTIME_ALLOCATED_H_
