// Memory pools: allocation and free in the order of streams.
//
// A free marks the place in its stream from which the block may be used again: by the same stream
// at once, since its later work comes later; by others when the stream has come there. Blocks that
// nobody uses stay with the pool, and beyond the release threshold they are given back at the
// program's next synchronisation, as CUDA does.
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

// A CUmemoryPool is its address.
struct MemoryPool {
  struct Unused {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    Point freed;  // where in its stream
  };

  int gpu = 0;
  bool is_default = false;
  bool destroyed = false;  // lives on for the blocks that are in use
  uint64_t max_bytes = 0;  // 0: no limit of its own
  uint64_t release_threshold = 0;
  int reuse_follow_events = 1;  // kept for questions
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
  // LIFETIME: all three outlive the pools. `gpus`: those that the program sees.
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
  // CUDA_ERROR_INVALID_VALUE where no block of a pool begins there.
  CUresult Free(CUdeviceptr address, const std::shared_ptr<Stream>& stream);
  // At once: the program's work is done already.
  CUresult FreeNow(CUdeviceptr address);
  // The pool of a block, or null.
  CUmemoryPool PoolOf(CUdeviceptr base);

  CUresult TrimTo(CUmemoryPool pool, size_t bytes_to_keep);
  // After a synchronisation: gives back what is beyond the pools' thresholds.
  void TrimAll();
  // A GPU's memory was given back as a whole.
  void ForgetAllOf(int gpu);

 private:
  static CUmemoryPool Handle(MemoryPool& pool) { return reinterpret_cast<CUmemoryPool>(&pool); }
  // All below: the lock is held.
  MemoryPool* Find(CUmemoryPool pool);
  MemoryPool* Owner(CUdeviceptr address);
  CUresult TakeUnused(MemoryPool& pool, const Stream& stream, size_t bytes, CUdeviceptr* address);
  void StartUsing(MemoryPool& pool, CUdeviceptr address, size_t bytes);
  void StopUsing(MemoryPool& pool, CUdeviceptr address);
  void Trim(MemoryPool& pool, uint64_t bytes_to_keep);
  void EraseIfOver(MemoryPool& pool);

  MemoryMap* const map_;
  Engine* const engine_;
  const std::vector<GpuIdentity>* const gpus_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<MemoryPool>> pools_;
  std::vector<MemoryPool*> defaults_;  // by gpu
  std::vector<MemoryPool*> current_;   // by gpu
  std::atomic<int> unused_blocks_{0};  // so that a synchronisation need not take the lock
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_MEMORY_POOL_H_
