// The memory of one allocation: a mapped, sealed memfd, and its import into another process.
#ifndef MCCS_EMULATION_CORE_SEALED_MEMORY_H_
#define MCCS_EMULATION_CORE_SEALED_MEMORY_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "emulation/include/mccs_emulation_ipc.h"

namespace mccs::emulation {

struct SealedMemory {
  void* address = nullptr;
  int fd = -1;
  MccsEmulationIpcHandle handle{};
};

// Creates `bytes` (whole pages) of zeros. Returns CUDA_ERROR_OUT_OF_MEMORY if the system refuses.
CUresult MakeSealedMemory(size_t bytes, int physical_gpu, SealedMemory* memory);

// Maps the memory that `handle` refers to, after checking that the handle is still valid. Returns
// CUDA_ERROR_INVALID_VALUE if the handle is not the emulation's. Returns CUDA_ERROR_MAP_FAILED
// (with a reason on stderr) if the owner has ended, has freed the memory or denies access.
CUresult OpenSealedMemory(const MccsEmulationIpcHandle& handle, SealedMemory* memory);

void CloseSealedMemory(void* address, size_t bytes, int fd);

// Maps anonymous pages for host memory. Returns null if the system refuses.
void* MapAnonymous(size_t bytes);

size_t RoundUpToPages(size_t bytes);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_SEALED_MEMORY_H_
