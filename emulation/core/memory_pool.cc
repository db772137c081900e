#include "emulation/core/memory_pool.h"

#include <algorithm>
#include <utility>

#include "emulation/core/memory_file.h"

namespace mccs::emulation {

MemoryPools::MemoryPools(MemoryMap* map, Engine* engine, const std::vector<GpuIdentity>* gpus)
    : map_(map), engine_(engine), gpus_(gpus) {
  for (size_t i = 0; i < gpus->size(); ++i) {
    auto pool = std::make_unique<MemoryPool>();
    pool->gpu = static_cast<int>(i);
    pool->is_default = true;
    defaults_.push_back(pool.get());
    pools_.push_back(std::move(pool));
  }
  current_ = defaults_;
}

MemoryPool* MemoryPools::Find(CUmemoryPool handle) {
  for (const auto& pool : pools_) {
    if (Handle(*pool) == handle && !pool->destroyed) return pool.get();
  }
  return nullptr;
}

MemoryPool* MemoryPools::Owner(CUdeviceptr address) {
  for (const auto& pool : pools_) {
    if (pool->used.count(address) > 0) return pool.get();
  }
  return nullptr;
}

CUmemoryPool MemoryPools::current_pool(int gpu) {
  std::lock_guard lock(mutex_);
  return Handle(*current_[static_cast<size_t>(gpu)]);
}

CUresult MemoryPools::SetCurrent(int gpu, CUmemoryPool handle) {
  std::lock_guard lock(mutex_);
  MemoryPool* const pool = Find(handle);
  if (pool == nullptr || pool->gpu != gpu) return CUDA_ERROR_INVALID_VALUE;
  current_[static_cast<size_t>(gpu)] = pool;
  return CUDA_SUCCESS;
}

CUresult MemoryPools::Create(const CUmemPoolProps& properties, CUmemoryPool* handle) {
  auto pool = std::make_unique<MemoryPool>();
  pool->gpu = properties.location.id;
  pool->max_bytes = properties.maxSize;
  *handle = Handle(*pool);
  std::lock_guard lock(mutex_);
  pools_.push_back(std::move(pool));
  return CUDA_SUCCESS;
}

CUresult MemoryPools::Destroy(CUmemoryPool handle) {
  std::lock_guard lock(mutex_);
  MemoryPool* const pool = Find(handle);
  if (pool == nullptr || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  MemoryPool*& current = current_[static_cast<size_t>(pool->gpu)];
  if (current == pool) current = defaults_[static_cast<size_t>(pool->gpu)];
  pool->destroyed = true;
  Trim(*pool, 0);
  EraseIfUnused(*pool);
  return CUDA_SUCCESS;
}

void MemoryPools::EraseIfUnused(MemoryPool& pool) {
  if (!pool.destroyed || !pool.used.empty() || !pool.unused.empty()) return;
  std::erase_if(pools_, [&pool](const auto& candidate) { return candidate.get() == &pool; });
}

CUresult MemoryPools::SetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                   const void* value) {
  std::lock_guard lock(mutex_);
  MemoryPool* const pool = Find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto set_flag = [value](int* flag) {
    *flag = *static_cast<const int*>(value) != 0;
    return CUDA_SUCCESS;
  };
  // A high-water mark can only be reset to the current value.
  const auto reset = [value](uint64_t* high, uint64_t now) {
    if (*static_cast<const cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
    *high = now;
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return set_flag(&pool->reuse_follow_events);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return set_flag(&pool->reuse_opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return set_flag(&pool->reuse_internal);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->release_threshold = *static_cast<const cuuint64_t*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return reset(&pool->reserved_high, pool->reserved_bytes);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return reset(&pool->used_high, pool->used_bytes);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult MemoryPools::GetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                   void* value) {
  std::lock_guard lock(mutex_);
  const MemoryPool* const pool = Find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto flag = [value](int answer) {
    *static_cast<int*>(value) = answer;
    return CUDA_SUCCESS;
  };
  const auto bytes = [value](uint64_t answer) {
    *static_cast<cuuint64_t*>(value) = answer;
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return flag(pool->reuse_follow_events);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return flag(pool->reuse_opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return flag(pool->reuse_internal);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return bytes(pool->release_threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return bytes(pool->reserved_bytes);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return bytes(pool->reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return bytes(pool->used_bytes);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return bytes(pool->used_high);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult MemoryPools::SetAccess(CUmemoryPool handle, const CUmemAccessDesc& access) {
  std::lock_guard lock(mutex_);
  MemoryPool* const pool = Find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool own = access.location.id == pool->gpu;
  if (own && access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) return CUDA_ERROR_INVALID_VALUE;
  if (!own) pool->access[access.location.id] = access.flags;
  return CUDA_SUCCESS;
}

CUresult MemoryPools::GetAccess(CUmemoryPool handle, int gpu, CUmemAccess_flags* flags) {
  std::lock_guard lock(mutex_);
  const MemoryPool* const pool = Find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto found = pool->access.find(gpu);
  *flags = gpu == pool->gpu              ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : found == pool->access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE
                                         : found->second;
  return CUDA_SUCCESS;
}

void MemoryPools::StartUsing(MemoryPool& pool, CUdeviceptr address, size_t bytes) {
  pool.used[address] = bytes;
  pool.used_bytes += bytes;
  pool.used_high = std::max(pool.used_high, pool.used_bytes);
}

void MemoryPools::StopUsing(MemoryPool& pool, CUdeviceptr address) {
  const auto found = pool.used.find(address);
  pool.used_bytes -= found->second;
  pool.used.erase(found);
}

// Takes the smallest block that fits and that this stream may reuse. The block gets a new buffer
// id.
CUresult MemoryPools::ReuseBlock(MemoryPool& pool, const Stream& stream, size_t bytes,
                                 CUdeviceptr* address) {
  auto best = pool.unused.end();
  for (auto block = pool.unused.begin(); block != pool.unused.end(); ++block) {
    if (block->bytes < bytes || (best != pool.unused.end() && block->bytes >= best->bytes)) {
      continue;
    }
    if (block->freed.stream.get() == &stream || engine_->IsReached(block->freed)) best = block;
  }
  // A much larger block stays unused for larger requests.
  if (best == pool.unused.end() || best->bytes / 2 > bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = best->address;
  map_->RenewBufferId(best->address);
  StartUsing(pool, best->address, best->bytes);
  pool.unused.erase(best);
  --unused_blocks_;
  return CUDA_SUCCESS;
}

CUresult MemoryPools::Allocate(CUmemoryPool handle, const std::shared_ptr<Stream>& stream,
                               size_t bytes, CUdeviceptr* address) {
  std::lock_guard lock(mutex_);
  MemoryPool* const pool = Find(handle);
  if (pool == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t whole = RoundUpToPages(bytes);
  if (whole < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  if (ReuseBlock(*pool, *stream, whole, address) == CUDA_SUCCESS) return CUDA_SUCCESS;
  const auto allocate = [&] {
    if (pool->max_bytes != 0 && pool->reserved_bytes + whole > pool->max_bytes) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const int physical = (*gpus_)[static_cast<size_t>(pool->gpu)].physical;
    return map_->Allocate(RegionKind::kPool, pool->gpu, physical, whole, address);
  };
  CUresult result = allocate();
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {  // unused blocks may make room
    for (const auto& other : pools_) {
      if (other->gpu == pool->gpu) Trim(*other, 0);
    }
    result = allocate();
  }
  if (result != CUDA_SUCCESS) return result;
  pool->reserved_bytes += whole;
  pool->reserved_high = std::max(pool->reserved_high, pool->reserved_bytes);
  StartUsing(*pool, *address, whole);
  return CUDA_SUCCESS;
}

CUresult MemoryPools::Free(CUdeviceptr address, const std::shared_ptr<Stream>& stream) {
  std::lock_guard lock(mutex_);
  MemoryPool* const pool = Owner(address);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const size_t bytes = pool->used.at(address);
  StopUsing(*pool, address);
  pool->unused.push_back({address, bytes, engine_->Enqueue(stream, Join{})});
  ++unused_blocks_;
  return CUDA_SUCCESS;
}

CUresult MemoryPools::FreeNow(CUdeviceptr address) {
  std::lock_guard lock(mutex_);
  MemoryPool* const pool = Owner(address);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  pool->reserved_bytes -= pool->used.at(address);
  StopUsing(*pool, address);
  const CUresult result = map_->Free(address);
  EraseIfUnused(*pool);
  return result;
}

CUmemoryPool MemoryPools::PoolOf(CUdeviceptr base) {
  std::lock_guard lock(mutex_);
  MemoryPool* const pool = Owner(base);
  return pool == nullptr ? nullptr : Handle(*pool);
}

// Frees unused blocks whose streams have reached the free, until at most `bytes_to_keep` bytes are
// reserved.
void MemoryPools::Trim(MemoryPool& pool, uint64_t bytes_to_keep) {
  std::erase_if(pool.unused, [&](const MemoryPool::Unused& block) {
    if (pool.reserved_bytes <= bytes_to_keep || !engine_->IsReached(block.freed)) return false;
    map_->Free(block.address);
    pool.reserved_bytes -= block.bytes;
    --unused_blocks_;
    return true;
  });
}

CUresult MemoryPools::TrimTo(CUmemoryPool handle, size_t bytes_to_keep) {
  std::lock_guard lock(mutex_);
  MemoryPool* const pool = Find(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Trim(*pool, bytes_to_keep);
  return CUDA_SUCCESS;
}

void MemoryPools::TrimAll() {
  if (unused_blocks_.load() == 0) return;
  std::lock_guard lock(mutex_);
  for (const auto& pool : pools_) Trim(*pool, pool->destroyed ? 0 : pool->release_threshold);
  std::erase_if(pools_, [](const auto& pool) {
    return pool->destroyed && pool->used.empty() && pool->unused.empty();
  });
}

void MemoryPools::OnGpuMemoryFreed(int gpu) {
  std::lock_guard lock(mutex_);
  for (const auto& pool : pools_) {
    if (pool->gpu != gpu) continue;
    unused_blocks_ -= static_cast<int>(pool->unused.size());
    pool->used.clear();
    pool->unused.clear();
    pool->used_bytes = pool->reserved_bytes = 0;
  }
}

}  // namespace mccs::emulation
