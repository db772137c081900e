// The fake's virtual memory: chunks are memory files, so that the fake daemon can map them
// elsewhere.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "base/check.h"
#include "base/unique_fd.h"
#include "tests/unit/shim/fake_cuda.h"

namespace mccs::fake_cuda {
namespace {

struct Chunk {
  size_t bytes;
  bool shareable;
  UniqueFd file;
};

struct VirtualWorld {
  std::mutex mutex;
  std::map<uintptr_t, Chunk> chunks;
};

VirtualWorld& TheVirtualWorld() {
  static auto* world = new VirtualWorld;
  return *world;
}

}  // namespace

std::byte* Reserve(size_t bytes) {
  void* place = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  MCCS_CHECK(place != MAP_FAILED);
  return static_cast<std::byte*>(place);
}

void Map(std::byte* place, size_t bytes, bool shareable) {
  UniqueFd file(memfd_create("fake-chunk", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  MCCS_CHECK(ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
  MCCS_CHECK(mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0) ==
             place);
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  world.chunks[reinterpret_cast<uintptr_t>(place)] = {bytes, shareable, std::move(file)};
  Know(place, bytes, Kind::kVirtual);
}

void Unmap(std::byte* place) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  const auto chunk = world.chunks.find(reinterpret_cast<uintptr_t>(place));
  MCCS_CHECK(chunk != world.chunks.end());
  mmap(place, chunk->second.bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  world.chunks.erase(chunk);
  Forget(place);
}

}  // namespace mccs::fake_cuda

using mccs::fake_cuda::TheVirtualWorld;
using mccs::fake_cuda::VirtualWorld;

extern "C" {

// A handle is the address that the chunk is mapped at.
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto chunk = world.chunks.upper_bound(at);
  if (chunk == world.chunks.begin()) return CUDA_ERROR_INVALID_VALUE;
  --chunk;
  if (at - chunk->first >= chunk->second.bytes) return CUDA_ERROR_INVALID_VALUE;
  *handle = chunk->first;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle) { return CUDA_SUCCESS; }

CUresult cuMemExportToShareableHandle(void* shared, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType, unsigned long long) {
  VirtualWorld& world = TheVirtualWorld();
  std::lock_guard lock(world.mutex);
  const auto chunk = world.chunks.find(handle);
  if (chunk == world.chunks.end() || !chunk->second.shareable) return CUDA_ERROR_NOT_SUPPORTED;
  *static_cast<int*>(shared) = dup(chunk->second.file.get());
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = size_t{1} << 30;
  return CUDA_SUCCESS;
}

}  // extern "C"
