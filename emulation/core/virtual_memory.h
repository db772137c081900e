// Virtual memory management: memory without an address (cuMemCreate), ranges of addresses without
// memory (cuMemAddressReserve), and mappings between them.
//
// A memory is a sealed memfd. It lives while a handle of this process or a mapping refers to it;
// its pages live while any process holds it. MemoryMap knows each mapping, so that copies and
// pointer attributes find it. Each mapping has its own id: an address that is mapped again is
// another buffer.
//
// THREAD: any; one lock inside, taken before MemoryMap's. No function waits for streams.
#ifndef MCCS_EMULATION_CORE_VIRTUAL_MEMORY_H_
#define MCCS_EMULATION_CORE_VIRTUAL_MEMORY_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "emulation/core/gpu.h"
#include "emulation/core/memory_map.h"

namespace mccs::emulation {

// Granularity of sizes and addresses: a GPU's large page.
inline constexpr size_t kGranularityBytes = size_t{2} << 20;

class VirtualMemory {
 public:
  // `gpus`: the GPUs that the program sees. LIFETIME: `map` and `gpus` outlive this.
  VirtualMemory(MemoryMap* map, const std::vector<GpuIdentity>* gpus, PeerPairs peers = {})
      : map_(map), gpus_(gpus), peers_(std::move(peers)) {}

  CUresult Create(size_t bytes, const CUmemAllocationProp& properties,
                  CUmemGenericAllocationHandle* handle);
  CUresult Release(CUmemGenericAllocationHandle handle);
  CUresult GetProperties(CUmemGenericAllocationHandle handle, CUmemAllocationProp* properties);
  // Returns the handle of the memory mapped at `address`, and adds a reference to it.
  CUresult Retain(uintptr_t address, CUmemGenericAllocationHandle* handle);

  CUresult Reserve(size_t bytes, size_t alignment, uintptr_t hint, uintptr_t* address);
  CUresult FreeReservation(uintptr_t address, size_t bytes);

  CUresult Map(uintptr_t address, size_t bytes, CUmemGenericAllocationHandle handle);
  // Unmaps whole mappings only.
  CUresult Unmap(uintptr_t address, size_t bytes);
  // CUDA_ERROR_INVALID_DEVICE: a GPU cannot use the memory of this one.
  CUresult SetAccess(uintptr_t address, size_t bytes, std::span<const CUmemAccessDesc> access);
  CUresult GetAccess(uintptr_t address, int gpu, CUmemAccess_flags* flags);

  // Returns a descriptor that another process, or this one, may import.
  CUresult Export(CUmemGenericAllocationHandle handle, int* fd);
  CUresult Import(int fd, CUmemGenericAllocationHandle* handle);
  // Returns a descriptor of the memory of the mapping that contains the range. It needs no
  // permission to export.
  CUresult ExportRange(uintptr_t address, size_t bytes, int* fd);

 private:
  struct Memory {
    UniqueFd file;
    size_t bytes = 0;
    CUmemAllocationProp properties{};
    int physical = 0;       // ordinal in the host of its GPU
    bool imported = false;  // counted for another handle
    uint64_t handles = 0;   // references by handle
    uint64_t mappings = 0;
  };
  struct Mapping {
    size_t bytes = 0;
    CUmemGenericAllocationHandle memory = 0;
    std::map<int, CUmemAccess_flags> access;  // by gpu
  };

  CUresult Add(Memory memory, CUmemGenericAllocationHandle* handle);
  void DropIfUnused(std::map<CUmemGenericAllocationHandle, Memory>::iterator memory);
  // Returns the mappings that fill the range exactly, or empty.
  std::vector<uintptr_t> MappingsIn(uintptr_t address, size_t bytes) const;
  bool IsReserved(uintptr_t address, size_t bytes) const;

  MemoryMap* const map_;
  const std::vector<GpuIdentity>* const gpus_;
  const PeerPairs peers_;
  std::mutex mutex_;
  std::map<CUmemGenericAllocationHandle, Memory> memories_;
  std::map<uintptr_t, size_t> reservations_;
  std::map<uintptr_t, Mapping> mappings_;
  CUmemGenericAllocationHandle last_handle_ = 0;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_VIRTUAL_MEMORY_H_
