// The file behind emulated device memory: a memfd that can neither shrink nor grow, so that another
// process can map it without trusting its owner.
//
// THREAD: any; no state.
#ifndef MCCS_EMULATION_CORE_MEMORY_FILE_H_
#define MCCS_EMULATION_CORE_MEMORY_FILE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "emulation/include/mccs_emulation_ipc.h"

namespace mccs::emulation {

// The seals of every memory file. Further seals stay possible: the seal against writing can be
// added only while no process maps the file (memory_account.h).
extern const int kMemoryFileSeals;

// Creates a file of `bytes` (whole pages) of zeros. Returns CUDA_ERROR_OUT_OF_MEMORY if the system
// rejects; prints a reason to stderr if the process has reached a limit.
CUresult MakeMemoryFile(const std::string& name, size_t bytes, UniqueFd* file);

// Creates the name of a file for virtual memory. It contains the GPU that the memory belongs to,
// for importers.
CUresult MakeVirtualMemoryName(int physical_gpu, std::string* name);

// Maps the beginning of the file at `address`, without access. Replaces existing mappings.
bool MapMemoryFile(int file, uintptr_t address, size_t bytes);

// Gives the file all its pages, as memory of a GPU has them, before another process uses it: pages
// that this process has never accessed would else count for the first process that does. False if
// the system rejects.
bool AllocatePages(int file, size_t bytes);

// Returns another descriptor of the file, for another process. Allocates its pages. The file counts
// as held while a copy of that descriptor, or a mapping made from it, exists. Invalid if the system
// rejects.
UniqueFd ExportMemoryFile(int file);

// Imports an exported file. Returns CUDA_ERROR_INVALID_VALUE for any other descriptor.
CUresult ImportMemoryFile(int exported, UniqueFd* file, size_t* bytes, int* physical_gpu);

// The memory of one allocation: a mapped memory file, and its import into another process.
struct SealedMemory {
  void* address = nullptr;
  int fd = -1;
  MccsEmulationIpcHandle handle{};
};

// Creates `bytes` (whole pages) of zeros. Returns CUDA_ERROR_OUT_OF_MEMORY if the system rejects.
CUresult MakeSealedMemory(size_t bytes, int physical_gpu, SealedMemory* memory);

// Maps the memory that `handle` refers to, after checking that the handle is still valid. Returns
// CUDA_ERROR_INVALID_VALUE if the handle is not the emulation's. Returns CUDA_ERROR_MAP_FAILED
// (with a reason on stderr) if the owner has ended, has freed the memory or denies access.
CUresult OpenSealedMemory(const MccsEmulationIpcHandle& handle, SealedMemory* memory);

void CloseSealedMemory(void* address, size_t bytes, int fd);

// Maps anonymous pages for host memory. Returns null if the system rejects.
void* MapAnonymous(size_t bytes);

size_t RoundUpToPages(size_t bytes);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_MEMORY_FILE_H_
