// The file behind emulated device memory: a memfd that can neither shrink nor grow, so that another
// process can map it without having to trust its owner.
//
// THREAD: any; no state.
#ifndef MCCS_EMULATION_CORE_MEMORY_FILE_H_
#define MCCS_EMULATION_CORE_MEMORY_FILE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace mccs::emulation {

// What every memory file is sealed against. Not against further seals: whether the one against
// writing can be added tells whether anybody maps the file (memory_account.h).
extern const int kMemoryFileSeals;

// A file of `bytes` (whole pages) of zeros. CUDA_ERROR_OUT_OF_MEMORY, with a reason on stderr where
// it is a limit of the process, where the system refuses.
CUresult MakeMemoryFile(const std::string& name, size_t bytes, UniqueFd* file);

// The name of a file for virtual memory; it says which GPU the memory belongs to, which an importer
// wants to know.
CUresult NameVirtualMemory(int physical_gpu, std::string* name);

// Maps the beginning of the file there, in place of what was, without access.
bool MapMemoryFile(int file, uintptr_t address, size_t bytes);

// Another descriptor for the file, for another process; as long as any copy of it lives, or a
// mapping that was made of it, the file counts as held. Invalid where the system refuses.
UniqueFd ExportMemoryFile(int file);

// Takes hold of a file that was exported so. CUDA_ERROR_INVALID_VALUE for any other descriptor.
CUresult ImportMemoryFile(int exported, UniqueFd* file, size_t* bytes, int* physical_gpu);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_MEMORY_FILE_H_
