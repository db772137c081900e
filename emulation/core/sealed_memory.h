// The memory behind one allocation: a sealed memfd, mapped; and its way into another process.
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

// Makes `bytes` (whole pages) of zeros. CUDA_ERROR_OUT_OF_MEMORY where the system refuses.
CUresult MakeSealedMemory(size_t bytes, int physical_gpu, SealedMemory* memory);

// Maps the memory that `handle` stands for, after checking that it still does.
// CUDA_ERROR_INVALID_VALUE for what is no handle of ours, CUDA_ERROR_MAP_FAILED (with a reason on
// stderr) where the owner is gone, has freed the memory or may not be looked into.
CUresult OpenSealedMemory(const MccsEmulationIpcHandle& handle, SealedMemory* memory);

void CloseSealedMemory(void* address, size_t bytes, int fd);

// Pages of a mapping without a file, for host memory. Null where the system refuses.
void* MapAnonymous(size_t bytes);

size_t RoundUpToPages(size_t bytes);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_SEALED_MEMORY_H_
