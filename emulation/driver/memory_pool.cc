// Memory pools and stream-ordered allocation.

#include "emulation/driver/entry.h"

namespace mccs::emulation {

extern "C" int MccsEmulationNotImplemented(const char* name, int* named_before, int code);

namespace {

bool IsGpu(const CallContext& session, const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && session.IsGpu(location.id);
}

// The emulation has no graph memory: an allocation in a capture fails with a message.
std::optional<CUresult> RejectInCapture(const CallContext& session, const Stream& stream,
                                        const char* what) {
  static int named_before = 0;
  const auto rejected = RejectIfCapturing(session, stream);
  if (rejected) return MccsEmulationNotImplemented(what, &named_before, 0), rejected;
  return std::nullopt;
}

// `pool`: null for the current pool of the stream's GPU.
CUresult Allocate(CUmemoryPool pool, CUstream handle, size_t bytes, CUdeviceptr* address) {
  MCCS_ENTER_CONTEXT(session);
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto stream = session.FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto rejected = RejectInCapture(session, *stream, "cuMemAllocAsync in a capture");
  if (rejected) return *rejected;
  MemoryPools& pools = session.process->pools;
  if (pool == nullptr) pool = pools.current_pool(stream->options.gpu);
  return pools.Allocate(pool, stream, bytes, address);
}

CUresult Free(CUdeviceptr address, CUstream handle) {
  MCCS_ENTER_CONTEXT(session);
  if (address == 0) return CUDA_SUCCESS;
  const auto stream = session.FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto rejected = RejectInCapture(session, *stream, "cuMemFreeAsync in a capture");
  if (rejected) return *rejected;
  const CUresult result = session.process->pools.Free(address, stream);
  if (result == CUDA_SUCCESS) return result;
  // Memory of cudaMalloc may also be freed in stream order.
  MemoryMap& memory = session.process->memory;
  const std::optional<Region> region = memory.Find(address);
  if (!region || region->base != address || region->kind != RegionKind::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  session.process->engine.Enqueue(stream,
                                  InternalCode{[&memory, address] { memory.Free(address); }});
  return CUDA_SUCCESS;
}

}  // namespace

MCCS_STREAM_CALL(cuMemAllocAsync, Allocate(nullptr, stream, bytes, address), CUdeviceptr* address,
                 size_t bytes, CUstream stream)
MCCS_STREAM_CALL(cuMemFreeAsync, Free(address, stream), CUdeviceptr address, CUstream stream)

extern "C" {

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : Allocate(pool, stream, bytes, address);
}
MCCS_PER_THREAD(cuMemAllocFromPoolAsync, ptsz,
                (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream), address,
                bytes, pool, OwnStream(stream))

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  MCCS_ENTER(session);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = session.process->pools.default_pool(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  MCCS_ENTER(session);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = session.process->pools.current_pool(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  MCCS_ENTER(session);
  if (!session.IsGpu(device)) return CUDA_ERROR_INVALID_DEVICE;
  return session.process->pools.SetCurrent(device, pool);
}

// The same by location; the emulation has no pools of host or managed memory.
CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                CUmemAllocationType type) {
  MCCS_ENTER(session);
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED || !IsGpu(session, *location)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return cuDeviceGetDefaultMemPool(pool, location->id);
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  MCCS_ENTER(session);
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED || !IsGpu(session, *location)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return cuDeviceGetMemPool(pool, location->id);
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  MCCS_ENTER(session);
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED || !IsGpu(session, *location)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return cuDeviceSetMemPool(location->id, pool);
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  MCCS_ENTER(session);
  if (pool == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!session.IsGpu(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  return session.process->pools.Create(*properties, pool);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  MCCS_ENTER(session);
  return session.process->pools.Destroy(pool);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes_to_keep) {
  MCCS_ENTER(session);
  return session.process->pools.TrimTo(pool, bytes_to_keep);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  MCCS_ENTER(session);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return session.process->pools.SetAttribute(pool, attribute, value);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  MCCS_ENTER(session);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return session.process->pools.GetAttribute(pool, attribute, value);
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, size_t count) {
  MCCS_ENTER(session);
  if (access == nullptr && count > 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (!IsGpu(session, access[i].location)) return CUDA_ERROR_INVALID_DEVICE;
    const CUresult result = session.process->pools.SetAccess(pool, access[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location) {
  MCCS_ENTER(session);
  if (flags == nullptr || location == nullptr || !IsGpu(session, *location)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return session.process->pools.GetAccess(pool, location->id, flags);
}

}  // extern "C"

}  // namespace mccs::emulation
