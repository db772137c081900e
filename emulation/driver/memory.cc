// Allocation, host memory, address ranges and sharing with other processes.

#include <cstring>

#include "base/unique_fd.h"
#include "emulation/core/memory_file.h"
#include "emulation/driver/entry.h"

namespace mccs::emulation {
namespace {

constexpr size_t kPitchAlignment = 512;

CUresult Allocate(const CallContext& session, RegionKind kind, size_t bytes, CUdeviceptr* address) {
  const int physical = session.process->gpus[session.gpu].physical;
  return session.process->memory.Allocate(kind, session.gpu, physical, bytes, address);
}

// A free waits for all work of the GPU that owns the memory, as in CUDA.
[[nodiscard]] CUresult WaitForOwner(CallContext session, const Region& region) {
  session.gpu = region.gpu;
  return WaitForGpu(session);
}

}  // namespace

extern "C" {

CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  MCCS_ENTER_UNSAFE(session);
  if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Allocate(session, RegionKind::kDevice, bytes, address);
}

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int flags) {
  MCCS_ENTER_UNSAFE(session);
  if (address == nullptr || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Allocate(session, RegionKind::kManaged, bytes, address);
}

CUresult cuMemAllocPitch(CUdeviceptr* address, size_t* pitch, size_t row_bytes, size_t rows,
                         unsigned int element_bytes) {
  MCCS_ENTER_UNSAFE(session);
  const bool element_known = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
  if (address == nullptr || pitch == nullptr || !element_known) return CUDA_ERROR_INVALID_VALUE;
  if (row_bytes == 0 || rows == 0) return CUDA_ERROR_INVALID_VALUE;
  *pitch = (row_bytes + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  if (*pitch < row_bytes || *pitch > SIZE_MAX / rows) return CUDA_ERROR_OUT_OF_MEMORY;
  return Allocate(session, RegionKind::kDevice, *pitch * rows, address);
}

CUresult cuMemFree(CUdeviceptr address) {
  MCCS_ENTER_UNSAFE(session);
  if (address == 0) return CUDA_SUCCESS;
  const std::optional<Region> region = session.process->memory.Find(address);
  if (!region || region->base != address) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult waited = WaitForOwner(session, *region); waited != CUDA_SUCCESS) return waited;
  if (region->kind == RegionKind::kPool) return session.process->pools.FreeNow(address);
  return session.process->memory.Free(address);
}

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total) {
  MCCS_ENTER_CONTEXT(session);
  if (free_bytes == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MemoryAccount& account = session.process->memory.account();
  *total = account.capacity_bytes();
  *free_bytes = *total - account.used_bytes(session.gpu);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  MCCS_ENTER_CONTEXT(session);
  const std::optional<Region> region = session.process->memory.Find(address);
  if (!region || region->kind == RegionKind::kRegistered) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = region->base;
  if (bytes != nullptr) *bytes = region->bytes;
  return CUDA_SUCCESS;
}

// The descriptor is that of the memory's file, from its beginning, whatever the range. No NIC
// registers it. Ranges of several mappings are not supported; a GPU's driver supports them.
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags) {
  MCCS_ENTER_CONTEXT(session);
  const bool known = type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
  const bool aligned = address == RoundUpToPages(address) && bytes == RoundUpToPages(bytes);
  if (handle == nullptr || !known || !aligned || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (session.process->options.dma_bufs == 0 || flags != 0) return CUDA_ERROR_NOT_SUPPORTED;
  const std::optional<Region> region = session.process->memory.Find(address);
  if (!region) return CUDA_ERROR_INVALID_VALUE;
  int* const fd = static_cast<int*>(handle);
  if (region->kind == RegionKind::kVirtual) {
    return session.process->virtual_memory.ExportRange(address, bytes, fd);
  }
  const size_t offset = address - region->base;
  if (region->kind != RegionKind::kDevice || bytes > region->mapped_bytes - offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  UniqueFd exported = ExportMemoryFile(region->fd);
  if (!exported.valid()) return CUDA_ERROR_OPERATING_SYSTEM;
  *fd = exported.Release();
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned int flags) {
  MCCS_ENTER_UNSAFE(session);
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (address == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  return session.process->memory.AllocateHost(session.gpu, bytes, flags, address);
}

CUresult cuMemAllocHost(void** address, size_t bytes) { return cuMemHostAlloc(address, bytes, 0); }

CUresult cuMemFreeHost(void* address) {
  MCCS_ENTER_UNSAFE(session);
  if (address == nullptr) return CUDA_SUCCESS;
  const auto region = session.process->memory.Find(reinterpret_cast<uintptr_t>(address));
  if (!region || region->kind != RegionKind::kHost) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult waited = WaitForOwner(session, *region); waited != CUDA_SUCCESS) return waited;
  return session.process->memory.FreeHost(address);
}

CUresult cuMemHostRegister(void* address, size_t bytes, unsigned int flags) {
  MCCS_ENTER_UNSAFE(session);
  constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                              CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  return session.process->memory.Register(session.gpu, address, bytes, flags);
}

CUresult cuMemHostUnregister(void* address) {
  MCCS_ENTER_UNSAFE(session);
  return session.process->memory.Unregister(address);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned int flags) {
  MCCS_ENTER_CONTEXT(session);
  if (device == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto address = reinterpret_cast<uintptr_t>(host);
  const std::optional<Region> region = session.process->memory.Find(address);
  if (!region || (region->kind != RegionKind::kHost && region->kind != RegionKind::kRegistered)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *device = address;
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* host) {
  MCCS_ENTER_CONTEXT(session);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto region = session.process->memory.Find(reinterpret_cast<uintptr_t>(host));
  if (!region || region->kind != RegionKind::kHost) return CUDA_ERROR_INVALID_VALUE;
  *flags = region->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  MCCS_ENTER_CONTEXT(session);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return session.process->memory.Export(address, handle);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned int flags) {
  MCCS_ENTER_UNSAFE(session);
  if (address == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Access is enabled as by cuCtxEnablePeerAccess, with its error.
  MccsEmulationIpcHandle owner;
  memcpy(&owner, &handle, sizeof(owner));
  if (owner.magic == MCCS_EMULATION_IPC_MAGIC &&
      !session.process->peers.Reaches(session.gpu, static_cast<int>(owner.gpu))) {
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  return session.process->memory.Import(session.gpu, handle, address);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  MCCS_ENTER_UNSAFE(session);
  const std::optional<Region> region = session.process->memory.Find(address);
  if (!region || region->kind != RegionKind::kImported || region->base != address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult waited = WaitForOwner(session, *region); waited != CUDA_SUCCESS) return waited;
  return session.process->memory.CloseImported(address);
}

}  // extern "C"

// ---- Managed memory ----------------------------------------------------------------------------
//
// Advice about managed memory. All managed memory is host memory, so advice is checked and has no
// effect; a prefetch only takes its place in the stream's order.

// cuda.h maps these names to their newest version; this file defines each version by its own name.
#undef cuMemAdvise
#undef cuMemPrefetchAsync

namespace {

CUresult CheckManaged(const CallContext& session, CUdeviceptr address, size_t bytes) {
  const std::optional<Region> region = session.process->memory.Find(address);
  const bool good = region && region->kind == RegionKind::kManaged && bytes > 0 &&
                    region->Contains(address, bytes);
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CheckLocation(const CallContext& session, const CUmemLocation& location) {
  const bool device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  return !device || session.IsGpu(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUmemLocation LocationOf(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

CUresult Advise(CUdeviceptr address, size_t bytes, const CUmemLocation& location) {
  MCCS_ENTER_CONTEXT(session);
  const CUresult result = CheckManaged(session, address, bytes);
  return result == CUDA_SUCCESS ? CheckLocation(session, location) : result;
}

CUresult EnqueueNothing(const CallContext& session, CUstream handle) {
  const auto stream = session.FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto rejected = RejectIfCapturing(session, *stream)) return *rejected;
  session.process->engine.Enqueue(stream, Join{});
  return CUDA_SUCCESS;
}

CUresult Prefetch(CUdeviceptr address, size_t bytes, const CUmemLocation& location, unsigned flags,
                  CUstream stream) {
  MCCS_ENTER_CONTEXT(session);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CheckManaged(session, address, bytes);
  if (result == CUDA_SUCCESS) result = CheckLocation(session, location);
  return result == CUDA_SUCCESS ? EnqueueNothing(session, stream) : result;
}

CUresult Attach(CUstream stream, CUdeviceptr address, unsigned flags) {
  MCCS_ENTER_CONTEXT(session);
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
      flags != CU_MEM_ATTACH_SINGLE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = CheckManaged(session, address, 1);
  return result == CUDA_SUCCESS ? EnqueueNothing(session, stream) : result;
}

}  // namespace

extern "C" {

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise, CUmemLocation location) {
  return Advise(address, bytes, location);
}
CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise, CUdevice device) {
  return Advise(address, bytes, LocationOf(device));
}

}  // extern "C"

MCCS_STREAM_CALL(cuMemPrefetchAsync_v2, Prefetch(address, bytes, location, flags, stream),
                 CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned int flags,
                 CUstream stream)
MCCS_STREAM_CALL(cuMemPrefetchAsync, Prefetch(address, bytes, LocationOf(device), 0, stream),
                 CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream)
MCCS_STREAM_CALL(cuStreamAttachMemAsync, Attach(stream, address, flags), CUstream stream,
                 CUdeviceptr address, size_t, unsigned int flags)

}  // namespace mccs::emulation
