// The fake's virtual memory: memory files, so that the fake daemon can map them elsewhere. A test
// creates it directly (Map), or the shim through the driver's functions.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/unique_fd.h"
#include "tests/unit/shim/fake_cuda.h"
#include "tests/unit/shim/fake_cuda_world.h"

namespace mccs::fake_cuda {
namespace {

struct Backing {
  size_t bytes;
  CUmemAllocationProp properties;
  UniqueFd file;
  int references = 0;  // handles and mappings
};

struct Chunk {
  size_t bytes;
  CUmemGenericAllocationHandle handle;
  std::vector<int> devices;
};

struct VirtualWorld {
  std::mutex mutex;
  VirtualSupport support;
  std::string failing;
  CUresult error = CUDA_SUCCESS;
  CUmemGenericAllocationHandle last_handle = 0;
  std::map<CUmemGenericAllocationHandle, Backing> backings;
  std::map<uintptr_t, Chunk> chunks;
  std::map<uintptr_t, size_t> reserved;  // through the driver's function

  CUresult Fails(const char* function) const { return failing == function ? error : CUDA_SUCCESS; }
  CUmemGenericAllocationHandle Add(size_t bytes, const CUmemAllocationProp& properties) {
    UniqueFd file(memfd_create("fake-chunk", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    MCCS_CHECK(ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
    backings[++last_handle] = {bytes, properties, std::move(file), 1};
    return last_handle;
  }
  bool Drop(CUmemGenericAllocationHandle handle) {
    const auto found = backings.find(handle);
    if (found == backings.end()) return false;
    if (--found->second.references == 0) backings.erase(found);
    return true;
  }
  std::map<uintptr_t, Chunk>::iterator ChunkAround(uintptr_t address) {
    auto chunk = chunks.upper_bound(address);
    if (chunk == chunks.begin()) return chunks.end();
    --chunk;
    return address - chunk->first < chunk->second.bytes ? chunk : chunks.end();
  }
  void MapChunk(uintptr_t place, size_t bytes, CUmemGenericAllocationHandle handle) {
    Backing& backing = backings.at(handle);
    void* const at = reinterpret_cast<void*>(place);
    MCCS_CHECK(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, backing.file.get(),
                    0) == at);
    ++backing.references;
    chunks[place] = {bytes, handle, {}};
    RegisterMemory(at, bytes, Kind::kVirtual);
  }
  bool UnmapChunk(uintptr_t place) {
    const auto chunk = chunks.find(place);
    if (chunk == chunks.end()) return false;
    void* const at = reinterpret_cast<void*>(place);
    mmap(at, chunk->second.bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    Drop(chunk->second.handle);
    chunks.erase(chunk);
    UnregisterMemory(at);
    return true;
  }
};

VirtualWorld& TheVirtualWorld() {
  static auto* world = new VirtualWorld;
  return *world;
}

}  // namespace

// Mappings of former tests stay, because their daemons have mapped them, too.
void ResetVirtualMemory() {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  world.support = {};
  world.failing.clear();
  world.chunks.clear();
  world.backings.clear();
  world.reserved.clear();
}

void Support(const VirtualSupport& support) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  world.support = support;
}

void FailVirtual(const char* function, CUresult error) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  world.failing = function;
  world.error = error;
}

size_t reservations() {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  return world.reserved.size();
}

size_t virtual_memories() {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  return world.backings.size();
}

CUmemAllocationProp PropertiesAt(const void* address) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  return world.backings.at(world.chunks.at(reinterpret_cast<uintptr_t>(address)).handle).properties;
}

std::vector<int> DevicesWithAccess(const void* address) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  return world.chunks.at(reinterpret_cast<uintptr_t>(address)).devices;
}

std::byte* Reserve(size_t bytes) {
  void* place = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  MCCS_CHECK(place != MAP_FAILED);
  return static_cast<std::byte*>(place);
}

void Map(std::byte* place, size_t bytes, bool shareable) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  CUmemAllocationProp properties{};
  if (shareable) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const CUmemGenericAllocationHandle handle = world.Add(bytes, properties);
  world.MapChunk(reinterpret_cast<uintptr_t>(place), bytes, handle);
  world.Drop(handle);
}

void Unmap(std::byte* place) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  MCCS_CHECK(world.UnmapChunk(reinterpret_cast<uintptr_t>(place)));
}

}  // namespace mccs::fake_cuda

using mccs::fake_cuda::kDevices;
using mccs::fake_cuda::kGranularity;
using mccs::fake_cuda::Reserve;
using mccs::fake_cuda::TheVirtualWorld;
using mccs::fake_cuda::VirtualWorld;

extern "C" {

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  *value = 0;
  if (attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) {
    *value = world.support.memory;
  } else if (attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) {
    *value = world.support.descriptors;
  } else if (attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED) {
    *value = world.support.fabric;
  }
  return CUDA_SUCCESS;
}

// Even and odd devices cannot access each other.
CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  *can = device != peer && device % 2 == peer % 2;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  *bytes = kGranularity;
  return world.Fails("cuMemGetAllocationGranularity");
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  const bool fabric = (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) != 0;
  if (fabric && !world.support.fabric_is_permitted) return CUDA_ERROR_NOT_PERMITTED;
  if (bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > size_t{1} << 30) return CUDA_ERROR_OUT_OF_MEMORY;
  if (CUresult error = world.Fails("cuMemCreate"); error != CUDA_SUCCESS) return error;
  *handle = world.Add(bytes, *properties);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  if (CUresult error = world.Fails("cuMemAddressReserve"); error != CUDA_SUCCESS) return error;
  *address = reinterpret_cast<CUdeviceptr>(Reserve(bytes));
  world.reserved[*address] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  const auto found = world.reserved.find(address);
  if (found == world.reserved.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (world.ChunkAround(address) != world.chunks.end()) return CUDA_ERROR_INVALID_VALUE;
  world.reserved.erase(found);
  munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  if (CUresult error = world.Fails("cuMemMap"); error != CUDA_SUCCESS) return error;
  world.MapChunk(address, bytes, handle);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  return world.UnmapChunk(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t, const CUmemAccessDesc* access, size_t count) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  if (CUresult error = world.Fails("cuMemSetAccess"); error != CUDA_SUCCESS) return error;
  for (size_t i = 0; i < count; ++i) {
    world.chunks.at(address).devices.push_back(access[i].location.id);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  const auto chunk = world.ChunkAround(reinterpret_cast<uintptr_t>(address));
  if (chunk == world.chunks.end()) return CUDA_ERROR_INVALID_VALUE;
  *handle = chunk->second.handle;
  ++world.backings.at(*handle).references;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  return world.Drop(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemExportToShareableHandle(void* shared, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType as, unsigned long long) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  const auto found = world.backings.find(handle);
  if (found == world.backings.end() || (found->second.properties.requestedHandleTypes & as) == 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *static_cast<int*>(shared) = fcntl(found->second.file.get(), F_DUPFD_CLOEXEC, 0);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = size_t{1} << 30;
  return CUDA_SUCCESS;
}

}  // extern "C"
