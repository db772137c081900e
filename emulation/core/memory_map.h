// The addresses of this process that CUDA knows: device memory, pinned and registered host memory,
// and device memory of other processes.
//
// Each emulated device allocation is a sealed memfd, so that another process can map it
// (mccs_emulation_ipc.h). A device pointer is an ordinary pointer: unlike on a GPU, the host can
// dereference it.
//
// THREAD: any; one lock inside. No function waits for streams: callers that free memory wait first.
// Errors are CUresult values, as in the driver API.
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
  kPool,        // cuMemAllocAsync: memory of a pool, without legacy IPC
  kManaged,     // cuMemAllocManaged
  kHost,        // cuMemHostAlloc
  kRegistered,  // cuMemHostRegister: the program's own memory
  kImported,    // cuIpcOpenMemHandle
  kVirtual,     // cuMemMap: one mapping in a reserved range
};

struct Region {
  RegionKind kind = RegionKind::kDevice;
  uintptr_t base = 0;
  size_t bytes = 0;         // as requested
  size_t mapped_bytes = 0;  // whole pages; 0 for kRegistered
  int gpu = 0;              // ordinal that the program sees; for host memory, the current GPU
  uint64_t buffer_id = 0;   // never reused in a process
  unsigned flags = 0;       // as given to cuMemHostAlloc or cuMemHostRegister
  int fd = -1;              // the memfd, if there is one
  MccsEmulationIpcHandle handle{};      // kDevice and kImported
  int opened = 0;                       // kImported: number of times it was opened
  bool fence_page = false;              // kRegistered: begins with a FencePageHeader
  unsigned long long handle_types = 0;  // kVirtual: how its memory may be exported
  bool accessible = true;               // kVirtual: false until cuMemSetAccess

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
  // `capacity_bytes`: of each GPU, counted in this process only.
  MemoryMap(int gpus, uint64_t capacity_bytes);

  // Allocates device memory of `gpu`, whose ordinal in the host is `physical`. `kind`: kDevice,
  // kPool or kManaged. Returns CUDA_ERROR_OUT_OF_MEMORY beyond the capacity.
  CUresult Allocate(RegionKind kind, int gpu, int physical, size_t bytes, CUdeviceptr* address);
  CUresult AllocateHost(int gpu, size_t bytes, unsigned flags, void** address);
  // Registers memory of the program, which must be mapped.
  CUresult Register(int gpu, void* address, size_t bytes, unsigned flags);

  // Each removes the region that begins at `address`, if its kind matches the call.
  CUresult Free(CUdeviceptr address);
  CUresult FreeHost(void* address);
  CUresult Unregister(void* address);
  // Frees all memory of the GPU; registered and imported memory stays.
  void FreeAllOf(int gpu);

  // Returns the handle of the allocation that begins at `address`.
  CUresult Export(CUdeviceptr address, CUipcMemHandle* handle) const;
  // Maps another process's allocation. A second import returns the same address and requires a
  // second CloseImported.
  CUresult Import(int gpu, const CUipcMemHandle& handle, CUdeviceptr* address);
  CUresult CloseImported(CUdeviceptr address);

  // Gives the region that begins at `base` a new id: it becomes another allocation.
  void RenewBufferId(uintptr_t base);

  // Adds a mapping of virtual memory. Its owner (virtual_memory.h) maps and unmaps it.
  CUresult AddMapping(Region region);
  void RemoveMapping(uintptr_t base);
  void SetAccessible(uintptr_t base, bool accessible);

  std::optional<Region> Find(uintptr_t address) const;
  // Whether a GPU may access these bytes: all are in one region, or in adjacent mappings of virtual
  // memory.
  bool IsKnown(uintptr_t address, size_t bytes) const;

  MemoryAccount& account() { return account_; }

 private:
  CUresult Insert(Region region);
  // Removes and returns the region that begins at `address` if `accept(kind)` holds, otherwise
  // empty.
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
