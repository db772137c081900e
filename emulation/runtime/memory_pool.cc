// Memory pools: forwarded to the driver.

#include "emulation/runtime/allocated.h"
#include "emulation/runtime/entry.h"

using mccs::emulation::Allocated;
using mccs::emulation::OwnStream;
using mccs::emulation::Pointer;
using mccs::emulation::Report;
using mccs::emulation::WithContext;

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

cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return WithContext([=] { return cuMemFreeAsync(Pointer(address), stream); });
}
MCCS_PER_THREAD(cudaFreeAsync, ptsz, (void* address, cudaStream_t stream), address,
                OwnStream(stream))

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return WithContext([=] { return cuDeviceGetDefaultMemPool(pool, device); });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return WithContext([=] { return cuDeviceGetMemPool(pool, device); });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return WithContext([=] { return cuDeviceSetMemPool(device, pool); });
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                                     cudaMemAllocationType type) {
  return WithContext([=] {
    return cuMemGetDefaultMemPool(pool, reinterpret_cast<CUmemLocation*>(location),
                                  static_cast<CUmemAllocationType>(type));
  });
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location,
                              cudaMemAllocationType type) {
  return WithContext([=] {
    return cuMemGetMemPool(pool, reinterpret_cast<CUmemLocation*>(location),
                           static_cast<CUmemAllocationType>(type));
  });
}

cudaError_t cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type,
                              cudaMemPool_t pool) {
  return WithContext([=] {
    return cuMemSetMemPool(reinterpret_cast<CUmemLocation*>(location),
                           static_cast<CUmemAllocationType>(type), pool);
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return WithContext(
      [=] { return cuMemPoolCreate(pool, reinterpret_cast<const CUmemPoolProps*>(properties)); });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return WithContext([=] { return cuMemPoolDestroy(pool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes_to_keep) {
  return WithContext([=] { return cuMemPoolTrimTo(pool, bytes_to_keep); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return WithContext([=] {
    return cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return WithContext([=] {
    return cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access,
                                 size_t count) {
  return WithContext([=] {
    return cuMemPoolSetAccess(pool, reinterpret_cast<const CUmemAccessDesc*>(access), count);
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                 cudaMemLocation* location) {
  return WithContext([=] {
    return cuMemPoolGetAccess(reinterpret_cast<CUmemAccess_flags*>(flags), pool,
                              reinterpret_cast<CUmemLocation*>(location));
  });
}

}  // extern "C"
