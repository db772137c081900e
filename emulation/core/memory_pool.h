// Memory pools: stream-ordered allocation and free.
//
// A free marks the point in its stream from which the block may be reused. The same stream may
// reuse it at once, since its later work comes later. Other streams may reuse it when the stream
// has reached that point. Unused blocks stay in the pool. Beyond the release threshold they are
// freed at the program's next synchronization, as in CUDA.
//
// THREAD: any; one lock inside, taken before MemoryMap's and the engine's.
#ifndef MCCS_EMULATION_CORE_MEMORY_POOL_H_
#define MCCS_EMULATION_CORE_MEMORY_POOL_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "emulation/core/engine.h"
#include "emulation/core/gpu.h"
#include "emulation/core/memory_map.h"

namespace mccs::emulation {

// The CUmemoryPool is its address.
struct MemoryPool {
  struct Unused {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    Point freed;  // the point of the free in its stream
  };

  int gpu = 0;
  bool is_default = false;
  bool destroyed = false;  // stays until its last block is freed
  uint64_t max_bytes = 0;  // 0: no limit
  uint64_t release_threshold = 0;
  int reuse_follow_events = 1;  // only for queries
  int reuse_opportunistic = 1;
  int reuse_internal = 1;
  uint64_t reserved_bytes = 0;
  uint64_t reserved_high = 0;
  uint64_t used_bytes = 0;
  uint64_t used_high = 0;
  std::map<int, CUmemAccess_flags> access;  // of other GPUs
  std::map<CUdeviceptr, size_t> used;       // blocks by address
  std::vector<Unused> unused;
};

class MemoryPools {
 public:
  // LIFETIME: all three outlive the pools. `gpus`: the GPUs that the program sees.
  MemoryPools(MemoryMap* map, Engine* engine, const std::vector<GpuIdentity>* gpus);

  CUmemoryPool default_pool(int gpu) const { return Handle(*defaults_[static_cast<size_t>(gpu)]); }
  CUmemoryPool current_pool(int gpu);
  CUresult SetCurrent(int gpu, CUmemoryPool pool);

  CUresult Create(const CUmemPoolProps& properties, CUmemoryPool* pool);
  CUresult Destroy(CUmemoryPool pool);
  CUresult SetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, const void* value);
  CUresult GetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
  CUresult SetAccess(CUmemoryPool pool, const CUmemAccessDesc& access);
  CUresult GetAccess(CUmemoryPool pool, int gpu, CUmemAccess_flags* flags);

  CUresult Allocate(CUmemoryPool pool, const std::shared_ptr<Stream>& stream, size_t bytes,
                    CUdeviceptr* address);
  // Returns CUDA_ERROR_INVALID_VALUE if no block of a pool begins at `address`.
  CUresult Free(CUdeviceptr address, const std::shared_ptr<Stream>& stream);
  // Frees at once. REQUIRES: the work that uses the block is done.
  CUresult FreeNow(CUdeviceptr address);
  // Returns the pool of a block, or null.
  CUmemoryPool PoolOf(CUdeviceptr base);

  CUresult TrimTo(CUmemoryPool pool, size_t bytes_to_keep);
  // Called after a synchronization: frees unused blocks beyond the pools' thresholds.
  void TrimAll();
  // Called when all memory of a GPU was freed.
  void OnGpuMemoryFreed(int gpu);

 private:
  static CUmemoryPool Handle(MemoryPool& pool) { return reinterpret_cast<CUmemoryPool>(&pool); }
  // REQUIRES for all below: the lock is held.
  MemoryPool* Find(CUmemoryPool pool);
  MemoryPool* Owner(CUdeviceptr address);
  CUresult ReuseBlock(MemoryPool& pool, const Stream& stream, size_t bytes, CUdeviceptr* address);
  void StartUsing(MemoryPool& pool, CUdeviceptr address, size_t bytes);
  void StopUsing(MemoryPool& pool, CUdeviceptr address);
  void Trim(MemoryPool& pool, uint64_t bytes_to_keep);
  void EraseIfUnused(MemoryPool& pool);

  MemoryMap* const map_;
  Engine* const engine_;
  const std::vector<GpuIdentity>* const gpus_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<MemoryPool>> pools_;
  std::vector<MemoryPool*> defaults_;  // by gpu
  std::vector<MemoryPool*> current_;   // by gpu
  std::atomic<int> unused_blocks_{0};  // lets a synchronization skip the lock
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_MEMORY_POOL_H_
