#include "emulation/core/virtual_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "emulation/core/memory_file.h"

namespace mccs::emulation {
namespace {

bool IsWhole(size_t bytes) { return bytes > 0 && bytes % kGranularityBytes == 0; }

// Reserves addresses without memory. Replaces existing mappings.
bool MapNothing(uintptr_t address, size_t bytes) {
  return mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

}  // namespace

CUresult VirtualMemory::Add(Memory memory, CUmemGenericAllocationHandle* handle) {
  memory.handles = 1;
  *handle = ++last_handle_;
  memories_.emplace(*handle, std::move(memory));
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Create(size_t bytes, const CUmemAllocationProp& properties,
                               CUmemGenericAllocationHandle* handle) {
  if (!IsWhole(bytes)) return CUDA_ERROR_INVALID_VALUE;
  const int gpu = properties.location.id;
  if (!map_->account().Reserve(gpu, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  Memory memory;
  memory.bytes = bytes;
  memory.properties = properties;
  memory.physical = (*gpus_)[static_cast<size_t>(gpu)].physical;
  std::string name;
  CUresult result = MakeVirtualMemoryName(memory.physical, &name);
  if (result == CUDA_SUCCESS) result = MakeMemoryFile(name, bytes, &memory.file);
  if (result != CUDA_SUCCESS) {
    map_->account().Release(gpu, bytes);
    return result;
  }
  std::lock_guard lock(mutex_);
  return Add(std::move(memory), handle);
}

// Frees the memory when no handle and no mapping refers to it.
void VirtualMemory::DropIfUnused(std::map<CUmemGenericAllocationHandle, Memory>::iterator found) {
  Memory& memory = found->second;
  if (memory.handles > 0 || memory.mappings > 0) return;
  if (!memory.imported) {
    map_->account().ReleaseUnlessHeld(memory.properties.location.id, memory.bytes,
                                      std::move(memory.file));
  }
  memories_.erase(found);
}

CUresult VirtualMemory::Release(CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(mutex_);
  const auto found = memories_.find(handle);
  if (found == memories_.end() || found->second.handles == 0) return CUDA_ERROR_INVALID_VALUE;
  --found->second.handles;
  DropIfUnused(found);
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::GetProperties(CUmemGenericAllocationHandle handle,
                                      CUmemAllocationProp* properties) {
  std::lock_guard lock(mutex_);
  const auto found = memories_.find(handle);
  if (found == memories_.end() || found->second.handles == 0) return CUDA_ERROR_INVALID_VALUE;
  *properties = found->second.properties;
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Retain(uintptr_t address, CUmemGenericAllocationHandle* handle) {
  std::lock_guard lock(mutex_);
  auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return CUDA_ERROR_INVALID_VALUE;
  const auto& [base, mapping] = *std::prev(after);
  if (address - base >= mapping.bytes) return CUDA_ERROR_INVALID_VALUE;
  ++memories_.at(mapping.memory).handles;
  *handle = mapping.memory;
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Reserve(size_t bytes, size_t alignment, uintptr_t hint,
                                uintptr_t* address) {
  if (!IsWhole(bytes) || (alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t boundary = std::max(alignment, kGranularityBytes);
  if (bytes > SIZE_MAX - boundary) return CUDA_ERROR_OUT_OF_MEMORY;
  // Maps more than requested, for the alignment, and unmaps both ends.
  void* const place = mmap(reinterpret_cast<void*>(hint), bytes + boundary, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto start = reinterpret_cast<uintptr_t>(place);
  *address = (start + boundary - 1) / boundary * boundary;
  if (*address > start) munmap(place, *address - start);
  munmap(reinterpret_cast<void*>(*address + bytes), start + boundary - *address);
  std::lock_guard lock(mutex_);
  reservations_[*address] = bytes;
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::FreeReservation(uintptr_t address, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  munmap(reinterpret_cast<void*>(address), bytes);
  reservations_.erase(found);
  return CUDA_SUCCESS;
}

bool VirtualMemory::IsReserved(uintptr_t address, size_t bytes) const {
  auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return false;
  const auto& [base, reserved] = *std::prev(after);
  return bytes <= reserved && address - base <= reserved - bytes;
}

CUresult VirtualMemory::Map(uintptr_t address, size_t bytes, CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(mutex_);
  const auto found = memories_.find(handle);
  if (found == memories_.end() || found->second.handles == 0) return CUDA_ERROR_INVALID_VALUE;
  Memory& memory = found->second;
  if (!IsWhole(bytes) || bytes > memory.bytes || address % kGranularityBytes != 0 ||
      !IsReserved(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto next = mappings_.lower_bound(address);
  const bool hits_next = next != mappings_.end() && next->first - address < bytes;
  const bool hits_previous =
      next != mappings_.begin() && address - std::prev(next)->first < std::prev(next)->second.bytes;
  if (hits_next || hits_previous) return CUDA_ERROR_INVALID_VALUE;
  if (!MapMemoryFile(memory.file.get(), address, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  Region region;
  region.base = address;
  region.bytes = region.mapped_bytes = bytes;
  region.gpu = memory.properties.location.id;
  region.handle_types = memory.properties.requestedHandleTypes;
  region.accessible = false;
  map_->AddMapping(std::move(region));
  mappings_[address] = {.bytes = bytes, .memory = handle, .access = {}};
  ++memory.mappings;
  return CUDA_SUCCESS;
}

std::vector<uintptr_t> VirtualMemory::MappingsIn(uintptr_t address, size_t bytes) const {
  std::vector<uintptr_t> bases;
  const uintptr_t end = address + bytes;
  if (bytes == 0 || end < address) return {};
  for (uintptr_t at = address; at < end;) {
    const auto found = mappings_.find(at);
    if (found == mappings_.end() || found->second.bytes > end - at) return {};
    bases.push_back(at);
    at += found->second.bytes;
  }
  return bases;
}

CUresult VirtualMemory::Unmap(uintptr_t address, size_t bytes) {
  std::lock_guard lock(mutex_);
  const std::vector<uintptr_t> bases = MappingsIn(address, bytes);
  if (bases.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (const uintptr_t base : bases) {
    const auto found = mappings_.find(base);
    map_->RemoveMapping(base);
    MapNothing(base, found->second.bytes);
    const auto memory = memories_.find(found->second.memory);
    mappings_.erase(found);
    --memory->second.mappings;
    DropIfUnused(memory);
  }
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::SetAccess(uintptr_t address, size_t bytes,
                                  std::span<const CUmemAccessDesc> access) {
  std::lock_guard lock(mutex_);
  const std::vector<uintptr_t> bases = MappingsIn(address, bytes);
  if (bases.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (const uintptr_t base : bases) {
    const int owner = memories_.at(mappings_.at(base).memory).physical;
    for (const CUmemAccessDesc& one : access) {
      const int user = (*gpus_)[static_cast<size_t>(one.location.id)].physical;
      if (one.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && !peers_.Reaches(user, owner))
        return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  for (const uintptr_t base : bases) {
    Mapping& mapping = mappings_.at(base);
    for (const CUmemAccessDesc& one : access) mapping.access[one.location.id] = one.flags;
    // The host accesses the memory for every GPU, so it gets the union of their permissions.
    int protection = PROT_NONE;
    for (const auto& [gpu, flags] : mapping.access) {
      if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) protection |= PROT_READ;
      if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) protection |= PROT_WRITE;
    }
    if (mprotect(reinterpret_cast<void*>(base), mapping.bytes, protection) != 0) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    map_->SetAccessible(base, protection != PROT_NONE);
  }
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::GetAccess(uintptr_t address, int gpu, CUmemAccess_flags* flags) {
  std::lock_guard lock(mutex_);
  auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return CUDA_ERROR_INVALID_VALUE;
  const auto& [base, mapping] = *std::prev(after);
  if (address - base >= mapping.bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto found = mapping.access.find(gpu);
  *flags = found == mapping.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Export(CUmemGenericAllocationHandle handle, int* fd) {
  std::lock_guard lock(mutex_);
  const auto found = memories_.find(handle);
  if (found == memories_.end() || found->second.handles == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool allowed = (found->second.properties.requestedHandleTypes &
                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
  if (!allowed) return CUDA_ERROR_INVALID_VALUE;
  UniqueFd exported = ExportMemoryFile(found->second.file.get());
  if (!exported.valid()) return CUDA_ERROR_OPERATING_SYSTEM;
  *fd = exported.Release();
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::ExportRange(uintptr_t address, size_t bytes, int* fd) {
  std::lock_guard lock(mutex_);
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return CUDA_ERROR_INVALID_VALUE;
  const auto& [base, mapping] = *std::prev(after);
  const uintptr_t offset = address - base;
  if (offset >= mapping.bytes || bytes > mapping.bytes - offset) return CUDA_ERROR_INVALID_VALUE;
  UniqueFd exported = ExportMemoryFile(memories_.at(mapping.memory).file.get());
  if (!exported.valid()) return CUDA_ERROR_OPERATING_SYSTEM;
  *fd = exported.Release();
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Import(int fd, CUmemGenericAllocationHandle* handle) {
  Memory memory;
  const CUresult result = ImportMemoryFile(fd, &memory.file, &memory.bytes, &memory.physical);
  if (result != CUDA_SUCCESS) return result;
  memory.imported = true;
  memory.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  memory.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  for (size_t i = 0; i < gpus_->size(); ++i) {
    // Memory of a GPU that this process does not see counts for the first GPU.
    if ((*gpus_)[i].physical == memory.physical)
      memory.properties.location.id = static_cast<int>(i);
  }
  std::lock_guard lock(mutex_);
  return Add(std::move(memory), handle);
}

}  // namespace mccs::emulation
