// Allocation, pointers and sharing with other processes.

#include <cstring>

#include "emulation/runtime/entry.h"

namespace mccs::emulation {
namespace {

// Runs `allocate(CUdeviceptr*)` and stores the address; for 0 bytes it stores a null pointer.
template <typename Allocate>
cudaError_t Allocated(void** address, size_t bytes, Allocate allocate) {
  if (address == nullptr) return Report(cudaErrorInvalidValue);
  *address = nullptr;
  return WithContext([&] {
    if (bytes == 0) return CUDA_SUCCESS;
    CUdeviceptr pointer = 0;
    const CUresult result = allocate(&pointer);
    if (result == CUDA_SUCCESS) *address = reinterpret_cast<void*>(pointer);
    return result;
  });
}

CUresult Describe(const void* address, cudaPointerAttributes* attributes) {
  CUmemorytype type{};
  unsigned managed = 0;
  int device = -2;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &managed, &device};
  const CUresult result = cuPointerGetAttributes(3, names, values, Pointer(address));
  if (result != CUDA_SUCCESS) return result;
  memset(attributes, 0, sizeof(*attributes));
  attributes->device = device;
  attributes->hostPointer = const_cast<void*>(address);
  if (type == CUmemorytype{}) {
    attributes->type = cudaMemoryTypeUnregistered;
    return CUDA_SUCCESS;
  }
  attributes->devicePointer = const_cast<void*>(address);
  attributes->type = managed != 0                 ? cudaMemoryTypeManaged
                     : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                  : cudaMemoryTypeDevice;
  if (attributes->type == cudaMemoryTypeDevice) attributes->hostPointer = nullptr;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return Allocated(address, bytes,
                   [=](CUdeviceptr* pointer) { return cuMemAlloc(pointer, bytes); });
}

cudaError_t cudaMallocManaged(void** address, size_t bytes, unsigned int flags) {
  return Allocated(address, bytes,
                   [=](CUdeviceptr* pointer) { return cuMemAllocManaged(pointer, bytes, flags); });
}

cudaError_t cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height) {
  return Allocated(address, width * height, [=](CUdeviceptr* pointer) {
    return cuMemAllocPitch(pointer, pitch, width, height, 4);
  });
}

MCCS_CALL(cudaFree, cuMemFree(Pointer(address)), void* address)

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned int flags) {
  if (address == nullptr) return Report(cudaErrorInvalidValue);
  *address = nullptr;
  return WithContext(
      [=] { return bytes == 0 ? CUDA_SUCCESS : cuMemHostAlloc(address, bytes, flags); });
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return cudaHostAlloc(address, bytes, cudaHostAllocDefault);
}

MCCS_CALL(cudaFreeHost, cuMemFreeHost(address), void* address)
MCCS_CALL(cudaHostRegister, cuMemHostRegister(address, bytes, flags), void* address, size_t bytes,
          unsigned int flags)
MCCS_CALL(cudaHostUnregister, cuMemHostUnregister(address), void* address)

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
  if (device == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    CUdeviceptr pointer = 0;
    const CUresult result = cuMemHostGetDevicePointer(&pointer, host, flags);
    *device = reinterpret_cast<void*>(pointer);
    return result;
  });
}

MCCS_CALL(cudaHostGetFlags, cuMemHostGetFlags(flags, host), unsigned int* flags, void* host)
MCCS_CALL(cudaMemAdvise,
          cuMemAdvise(Pointer(address), bytes, static_cast<CUmem_advise>(advice),
                      {static_cast<CUmemLocationType>(location.type), location.id}),
          const void* address, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location)
MCCS_STREAM_CALL(cudaMemPrefetchAsync,
                 cuMemPrefetchAsync(Pointer(address), bytes,
                                    {static_cast<CUmemLocationType>(location.type), location.id},
                                    flags, stream),
                 const void* address, size_t bytes, cudaMemLocation location, unsigned int flags,
                 cudaStream_t stream)
MCCS_STREAM_CALL(cudaStreamAttachMemAsync,
                 cuStreamAttachMemAsync(stream, Pointer(address), bytes, flags),
                 cudaStream_t stream, void* address, size_t bytes, unsigned int flags)
MCCS_CALL(cudaMemGetInfo, cuMemGetInfo(free_bytes, total), size_t* free_bytes, size_t* total)

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  if (attributes == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] { return Describe(address, attributes); });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));
  return WithContext([=] {
    return cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), Pointer(address));
  });
}

cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned int flags) {
  if (address == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    CUipcMemHandle driver_handle;
    memcpy(&driver_handle, &handle, sizeof(driver_handle));
    CUdeviceptr pointer = 0;
    const CUresult result = cuIpcOpenMemHandle(&pointer, driver_handle, flags);
    *address = reinterpret_cast<void*>(pointer);
    return result;
  });
}

MCCS_CALL(cudaIpcCloseMemHandle, cuIpcCloseMemHandle(Pointer(address)), void* address)

}  // extern "C"

// ---- Memory pools ------------------------------------------------------------------------------

static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
static_assert(static_cast<int>(cudaMemPoolAttrUsedMemHigh) == CU_MEMPOOL_ATTR_USED_MEM_HIGH);

extern "C" {

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t stream) {
  return Allocated(address, bytes,
                   [=](CUdeviceptr* pointer) { return cuMemAllocAsync(pointer, bytes, stream); });
}
MCCS_PER_THREAD(cudaMallocAsync, ptsz, (void** address, size_t bytes, cudaStream_t stream), address,
                bytes, OwnStream(stream))

cudaError_t cudaMallocFromPoolAsync(void** address, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return Allocated(address, bytes, [=](CUdeviceptr* pointer) {
    return cuMemAllocFromPoolAsync(pointer, bytes, pool, stream);
  });
}
MCCS_PER_THREAD(cudaMallocFromPoolAsync, ptsz,
                (void** address, size_t bytes, cudaMemPool_t pool, cudaStream_t stream), address,
                bytes, pool, OwnStream(stream))

MCCS_STREAM_CALL(cudaFreeAsync, cuMemFreeAsync(Pointer(address), stream), void* address,
                 cudaStream_t stream)
MCCS_CALL(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool(pool, device), cudaMemPool_t* pool,
          int device)
MCCS_CALL(cudaDeviceGetMemPool, cuDeviceGetMemPool(pool, device), cudaMemPool_t* pool, int device)
MCCS_CALL(cudaDeviceSetMemPool, cuDeviceSetMemPool(device, pool), int device, cudaMemPool_t pool)
MCCS_CALL(cudaMemGetDefaultMemPool,
          cuMemGetDefaultMemPool(pool, reinterpret_cast<CUmemLocation*>(location),
                                 static_cast<CUmemAllocationType>(type)),
          cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType type)
MCCS_CALL(cudaMemGetMemPool,
          cuMemGetMemPool(pool, reinterpret_cast<CUmemLocation*>(location),
                          static_cast<CUmemAllocationType>(type)),
          cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType type)
MCCS_CALL(cudaMemSetMemPool,
          cuMemSetMemPool(reinterpret_cast<CUmemLocation*>(location),
                          static_cast<CUmemAllocationType>(type), pool),
          cudaMemLocation* location, cudaMemAllocationType type, cudaMemPool_t pool)
MCCS_CALL(cudaMemPoolCreate,
          cuMemPoolCreate(pool, reinterpret_cast<const CUmemPoolProps*>(properties)),
          cudaMemPool_t* pool, const cudaMemPoolProps* properties)
MCCS_CALL(cudaMemPoolDestroy, cuMemPoolDestroy(pool), cudaMemPool_t pool)
MCCS_CALL(cudaMemPoolTrimTo, cuMemPoolTrimTo(pool, bytes_to_keep), cudaMemPool_t pool,
          size_t bytes_to_keep)
MCCS_CALL(cudaMemPoolSetAttribute,
          cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value),
          cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value)
MCCS_CALL(cudaMemPoolGetAttribute,
          cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value),
          cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value)
MCCS_CALL(cudaMemPoolSetAccess,
          cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc*>(access), count),
          cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t count)
MCCS_CALL(cudaMemPoolGetAccess,
          cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool,
                             reinterpret_cast<CUmemLocation*>(location)),
          cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location)

}  // extern "C"

}  // namespace mccs::emulation
