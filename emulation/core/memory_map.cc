#include "emulation/core/memory_map.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "emulation/core/memory_file.h"
#include "proto/fence_page.h"

namespace mccs::emulation {
namespace {

void Unmap(const Region& region) {
  CloseSealedMemory(reinterpret_cast<void*>(region.base), region.mapped_bytes, region.fd);
}

// Returns whether every page of the range is mapped. Makes the pages present, as pinning does.
bool IsMapped(uintptr_t address, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = address / page * page;
  const size_t length = address + bytes - first;
  if (madvise(reinterpret_cast<void*>(first), length, MADV_POPULATE_READ) == 0) return true;
  // Without MADV_POPULATE_READ, assume that it is mapped.
  return errno != ENOMEM && errno != EFAULT;
}

bool BeginsWithFenceHeader(uintptr_t address, size_t bytes) {
  if (bytes < sizeof(wire::FencePageHeader) || address % alignof(wire::FencePageHeader) != 0) {
    return false;
  }
  uint64_t magic = 0;
  memcpy(&magic, reinterpret_cast<const void*>(address), sizeof(magic));
  return magic == wire::kFencePageMagic;
}

}  // namespace

MemoryMap::MemoryMap(int gpus, uint64_t capacity_bytes) : account_(gpus, capacity_bytes) {}

CUresult MemoryMap::Allocate(RegionKind kind, int gpu, int physical, size_t bytes,
                             CUdeviceptr* address) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > account_.capacity_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t mapped = RoundUpToPages(bytes);
  if (!account_.Reserve(gpu, mapped)) return CUDA_ERROR_OUT_OF_MEMORY;
  SealedMemory memory;
  const CUresult result = MakeSealedMemory(mapped, physical, &memory);
  if (result != CUDA_SUCCESS) {
    account_.Release(gpu, mapped);
    return result;
  }
  Region region;
  region.kind = kind;
  region.base = reinterpret_cast<uintptr_t>(memory.address);
  region.bytes = bytes;
  region.mapped_bytes = mapped;
  region.gpu = gpu;
  region.fd = memory.fd;
  region.handle = memory.handle;
  *address = region.base;
  return Insert(std::move(region));
}

CUresult MemoryMap::AllocateHost(int gpu, size_t bytes, unsigned flags, void** address) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Region region;
  region.kind = RegionKind::kHost;
  region.mapped_bytes = RoundUpToPages(bytes);
  void* memory = MapAnonymous(region.mapped_bytes);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  region.base = reinterpret_cast<uintptr_t>(memory);
  region.bytes = bytes;
  region.gpu = gpu;
  region.flags = flags;
  *address = memory;
  return Insert(std::move(region));
}

CUresult MemoryMap::Register(int gpu, void* address, size_t bytes, unsigned flags) {
  const auto base = reinterpret_cast<uintptr_t>(address);
  if (base == 0 || bytes == 0 || base + bytes < base) return CUDA_ERROR_INVALID_VALUE;
  if (!IsMapped(base, bytes)) return CUDA_ERROR_INVALID_VALUE;
  Region region;
  region.kind = RegionKind::kRegistered;
  region.base = base;
  region.bytes = bytes;
  region.gpu = gpu;
  region.flags = flags;
  region.fence_page = BeginsWithFenceHeader(base, bytes);
  return Insert(std::move(region));
}

// Returns CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED if the region overlaps another one.
CUresult MemoryMap::Insert(Region region) {
  std::lock_guard lock(mutex_);
  auto next = regions_.lower_bound(region.base);
  // A new mapping cannot overlap another one. So an overlapping region was registered, and then
  // unmapped by the program without cuMemHostUnregister.
  if (region.mapped_bytes > 0) {
    while (next != regions_.end() && next->first - region.base < region.bytes) {
      next = regions_.erase(next);
    }
    while (next != regions_.begin() && std::prev(next)->second.Contains(region.base, 1)) {
      next = regions_.erase(std::prev(next));
    }
  }
  const bool hits_next = next != regions_.end() && next->first - region.base < region.bytes;
  const bool hits_previous =
      next != regions_.begin() && std::prev(next)->second.Contains(region.base, 1);
  if (hits_next || hits_previous) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  region.buffer_id = ++last_buffer_id_;
  regions_.emplace_hint(next, region.base, std::move(region));
  return CUDA_SUCCESS;
}

template <typename Accept>
std::optional<Region> MemoryMap::Remove(uintptr_t address, Accept accept) {
  std::lock_guard lock(mutex_);
  const auto found = regions_.find(address);
  if (found == regions_.end() || !accept(found->second.kind)) return std::nullopt;
  Region region = std::move(found->second);
  regions_.erase(found);
  return region;
}

CUresult MemoryMap::Free(CUdeviceptr address) {
  const std::optional<Region> region = Remove(address, [](RegionKind kind) {
    return kind == RegionKind::kDevice || kind == RegionKind::kPool || kind == RegionKind::kManaged;
  });
  if (!region) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(region->base), region->mapped_bytes);
  account_.ReleaseUnlessHeld(region->gpu, region->mapped_bytes, UniqueFd(region->fd));
  return CUDA_SUCCESS;
}

CUresult MemoryMap::FreeHost(void* address) {
  const std::optional<Region> region =
      Remove(reinterpret_cast<uintptr_t>(address),
             [](RegionKind kind) { return kind == RegionKind::kHost; });
  if (!region) return CUDA_ERROR_INVALID_VALUE;
  Unmap(*region);
  return CUDA_SUCCESS;
}

CUresult MemoryMap::Unregister(void* address) {
  const std::optional<Region> region =
      Remove(reinterpret_cast<uintptr_t>(address),
             [](RegionKind kind) { return kind == RegionKind::kRegistered; });
  return region ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

void MemoryMap::FreeAllOf(int gpu) {
  std::vector<uintptr_t> bases;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [base, region] : regions_) {
      if (region.gpu == gpu) bases.push_back(base);
    }
  }
  for (const uintptr_t base : bases) Free(base);  // rejects regions that are not the GPU's
}

CUresult MemoryMap::Export(CUdeviceptr address, CUipcMemHandle* handle) const {
  static_assert(sizeof(CUipcMemHandle) == sizeof(MccsEmulationIpcHandle));
  const std::optional<Region> region = Find(address);
  if (!region || region->kind != RegionKind::kDevice || region->base != address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!AllocatePages(region->handle.fd, region->handle.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(handle, &region->handle, sizeof(*handle));
  return CUDA_SUCCESS;
}

CUresult MemoryMap::Import(int gpu, const CUipcMemHandle& handle, CUdeviceptr* address) {
  MccsEmulationIpcHandle wanted;
  memcpy(&wanted, &handle, sizeof(wanted));
  if (wanted.pid == getpid())
    return CUDA_ERROR_INVALID_CONTEXT;  // as CUDA: only in another process
  {
    std::lock_guard lock(mutex_);
    for (auto& [base, region] : regions_) {
      if (region.kind != RegionKind::kImported || region.gpu != gpu) continue;
      if (memcmp(&region.handle, &wanted, sizeof(wanted)) != 0) continue;
      ++region.opened;
      *address = base;
      return CUDA_SUCCESS;
    }
  }
  SealedMemory memory;
  const CUresult result = OpenSealedMemory(wanted, &memory);
  if (result != CUDA_SUCCESS) return result;
  Region region;
  region.kind = RegionKind::kImported;
  region.base = reinterpret_cast<uintptr_t>(memory.address);
  region.bytes = region.mapped_bytes = wanted.bytes;
  region.gpu = gpu;
  region.handle = wanted;
  region.opened = 1;
  *address = region.base;
  return Insert(std::move(region));
}

CUresult MemoryMap::CloseImported(CUdeviceptr address) {
  Region closed;
  {
    std::lock_guard lock(mutex_);
    const auto found = regions_.find(address);
    if (found == regions_.end() || found->second.kind != RegionKind::kImported) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (--found->second.opened > 0) return CUDA_SUCCESS;
    closed = std::move(found->second);
    regions_.erase(found);
  }
  Unmap(closed);
  return CUDA_SUCCESS;
}

std::optional<Region> MemoryMap::FindLocked(uintptr_t address) const {
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return std::nullopt;
  const Region& region = std::prev(after)->second;
  if (!region.Contains(address, 1)) return std::nullopt;
  return region;
}

std::optional<Region> MemoryMap::Find(uintptr_t address) const {
  std::lock_guard lock(mutex_);
  return FindLocked(address);
}

bool MemoryMap::IsKnown(uintptr_t address, size_t bytes) const {
  if (address + bytes < address) return false;
  std::lock_guard lock(mutex_);
  for (;;) {
    const std::optional<Region> region = FindLocked(address);
    if (!region || !region->accessible) return false;
    const size_t here = region->base + region->bytes - address;
    if (bytes <= here) return true;
    if (region->kind != RegionKind::kVirtual) return false;
    address += here;
    bytes -= here;
  }
}

void MemoryMap::RenewBufferId(uintptr_t base) {
  std::lock_guard lock(mutex_);
  const auto found = regions_.find(base);
  if (found != regions_.end()) found->second.buffer_id = ++last_buffer_id_;
}

CUresult MemoryMap::AddMapping(Region region) {
  region.kind = RegionKind::kVirtual;
  return Insert(std::move(region));
}

void MemoryMap::RemoveMapping(uintptr_t base) {
  Remove(base, [](RegionKind kind) { return kind == RegionKind::kVirtual; });
}

void MemoryMap::SetAccessible(uintptr_t base, bool accessible) {
  std::lock_guard lock(mutex_);
  const auto found = regions_.find(base);
  if (found != regions_.end()) found->second.accessible = accessible;
}

}  // namespace mccs::emulation
