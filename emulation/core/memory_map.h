// Which addresses of this process CUDA knows: device memory, pinned and registered host memory, and
// device memory of other processes.
//
// Emulated device memory is a sealed memfd per allocation, so that another process can map it
// (mccs_emulation_ipc.h). A device pointer is an ordinary pointer: the host may dereference it,
// which a GPU's driver would punish.
//
// THREAD: any; one lock inside. Nothing here waits for streams: whoever frees lets the work finish
// first. Errors are CUresult, the language of the library that this belongs to.
#ifndef MCCS_EMULATION_CORE_MEMORY_MAP_H_
#define MCCS_EMULATION_CORE_MEMORY_MAP_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "emulation/core/memory_account.h"
#include "emulation/include/mccs_emulation_ipc.h"

namespace mccs::emulation {

enum class RegionKind {
  kDevice,      // cuMemAlloc: exportable
  kPool,        // cuMemAllocAsync: like a pool's memory, without legacy IPC
  kManaged,     // cuMemAllocManaged
  kHost,        // cuMemHostAlloc
  kRegistered,  // cuMemHostRegister: the program's own memory
  kImported,    // cuIpcOpenMemHandle
  kVirtual,     // cuMemMap: one mapping in a reserved range
};

struct Region {
  RegionKind kind = RegionKind::kDevice;
  uintptr_t base = 0;
  size_t bytes = 0;         // as asked for
  size_t mapped_bytes = 0;  // whole pages; 0 for kRegistered
  int gpu = 0;              // ordinal that the program sees; for host memory, who was current
  uint64_t buffer_id = 0;   // never used twice in a process
  unsigned flags = 0;       // as given to cuMemHostAlloc or cuMemHostRegister
  int fd = -1;              // the memfd, where there is one
  MccsEmulationIpcHandle handle{};      // kDevice and kImported
  int opened = 0;                       // kImported: how often
  bool fence_page = false;              // kRegistered: begins with a FencePageHeader
  unsigned long long handle_types = 0;  // kVirtual: how its memory may be exported
  bool accessible = true;               // kVirtual: not before cuMemSetAccess

  bool IsDeviceMemory() const {
    return kind == RegionKind::kDevice || kind == RegionKind::kPool ||
           kind == RegionKind::kImported || kind == RegionKind::kVirtual;
  }
  bool Contains(uintptr_t address, size_t length) const {
    return address >= base && length <= bytes && address - base <= bytes - length;
  }
};

class MemoryMap {
 public:
  // `capacity_bytes`: what each GPU has, counted in this process alone.
  MemoryMap(int gpus, uint64_t capacity_bytes);

  // Device memory of `gpu`, which has the ordinal `physical` in its host. `kind`: kDevice, kPool or
  // kManaged. CUDA_ERROR_OUT_OF_MEMORY beyond the capacity.
  CUresult Allocate(RegionKind kind, int gpu, int physical, size_t bytes, CUdeviceptr* address);
  CUresult AllocateHost(int gpu, size_t bytes, unsigned flags, void** address);
  // Takes in memory of the program's own. It must be mapped.
  CUresult Register(int gpu, void* address, size_t bytes, unsigned flags);

  // The end of a region that begins at `address` and is of one of the kinds that the call is for.
  CUresult Free(CUdeviceptr address);
  CUresult FreeHost(void* address);
  CUresult Unregister(void* address);
  // All memory that the GPU gave, is given back; registered and imported memory stays.
  void FreeAllOf(int gpu);

  // The handle of the allocation that begins at `address`.
  CUresult Export(CUdeviceptr address, CUipcMemHandle* handle) const;
  // Maps another process's allocation; a second time gives the same address, and wants a second
  // Close.
  CUresult Import(int gpu, const CUipcMemHandle& handle, CUdeviceptr* address);
  CUresult CloseImported(CUdeviceptr address);

  // Gives the region that begins there a new id: it is another allocation from now on.
  void Rename(uintptr_t base);

  // A mapping of virtual memory, which its owner has made and will unmap (virtual_memory.h).
  CUresult AddMapping(Region region);
  void RemoveMapping(uintptr_t base);
  void SetAccessible(uintptr_t base, bool accessible);

  std::optional<Region> Find(uintptr_t address) const;
  // Whether a GPU may touch these bytes: all of them lie in one region, or in mappings of virtual
  // memory that lie side by side.
  bool IsKnown(uintptr_t address, size_t bytes) const;

  MemoryAccount& account() { return account_; }

 private:
  CUresult Insert(Region region);
  // Takes out the region that begins at `address` if `accept` likes its kind, else empty.
  template <typename Accept>
  std::optional<Region> Remove(uintptr_t address, Accept accept);
  std::optional<Region> FindLocked(uintptr_t address) const;

  mutable std::mutex mutex_;
  std::map<uintptr_t, Region> regions_;  // by base
  MemoryAccount account_;
  uint64_t last_buffer_id_ = 0;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_MEMORY_MAP_H_
