// Allocation, pointers and sharing with other processes.

#include <cstring>

#include "emulation/runtime/allocated.h"
#include "emulation/runtime/entry.h"

using mccs::emulation::Allocated;
using mccs::emulation::OwnStream;
using mccs::emulation::Pointer;
using mccs::emulation::Report;
using mccs::emulation::WithContext;

namespace {

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

cudaError_t cudaFree(void* address) {
  return WithContext([=] { return cuMemFree(Pointer(address)); });
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned int flags) {
  if (address == nullptr) return Report(cudaErrorInvalidValue);
  *address = nullptr;
  return WithContext(
      [=] { return bytes == 0 ? CUDA_SUCCESS : cuMemHostAlloc(address, bytes, flags); });
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return cudaHostAlloc(address, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* address) {
  return WithContext([=] { return cuMemFreeHost(address); });
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int flags) {
  return WithContext([=] { return cuMemHostRegister(address, bytes, flags); });
}

cudaError_t cudaHostUnregister(void* address) {
  return WithContext([=] { return cuMemHostUnregister(address); });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
  if (device == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    CUdeviceptr pointer = 0;
    const CUresult result = cuMemHostGetDevicePointer(&pointer, host, flags);
    *device = reinterpret_cast<void*>(pointer);
    return result;
  });
}

cudaError_t cudaHostGetFlags(unsigned int* flags, void* host) {
  return WithContext([=] { return cuMemHostGetFlags(flags, host); });
}

cudaError_t cudaMemAdvise(const void* address, size_t bytes, cudaMemoryAdvise advice,
                          cudaMemLocation location) {
  return WithContext([=] {
    return cuMemAdvise(Pointer(address), bytes, static_cast<CUmem_advise>(advice),
                       {static_cast<CUmemLocationType>(location.type), location.id});
  });
}

cudaError_t cudaMemPrefetchAsync(const void* address, size_t bytes, cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream) {
  return WithContext([=] {
    return cuMemPrefetchAsync(Pointer(address), bytes,
                              {static_cast<CUmemLocationType>(location.type), location.id}, flags,
                              stream);
  });
}
MCCS_PER_THREAD(cudaMemPrefetchAsync, ptsz,
                (const void* address, size_t bytes, cudaMemLocation location, unsigned int flags,
                 cudaStream_t stream),
                address, bytes, location, flags, OwnStream(stream))

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* address, size_t bytes,
                                     unsigned int flags) {
  return WithContext(
      [=] { return cuStreamAttachMemAsync(stream, Pointer(address), bytes, flags); });
}
MCCS_PER_THREAD(cudaStreamAttachMemAsync, ptsz,
                (cudaStream_t stream, void* address, size_t bytes, unsigned int flags),
                OwnStream(stream), address, bytes, flags)

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  return WithContext([=] { return cuMemGetInfo(free_bytes, total); });
}

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

cudaError_t cudaIpcCloseMemHandle(void* address) {
  return WithContext([=] { return cuIpcCloseMemHandle(Pointer(address)); });
}

}  // extern "C"
