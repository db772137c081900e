// Devices: enumeration, selection and properties.

#include <cstdio>
#include <cstring>

#include "emulation/runtime/entry.h"

namespace mccs::emulation {
namespace {

// Makes the primary context of `device` current; retains it from its first use.
CUresult UseDevice(int device) {
  CUcontext context = nullptr;
  unsigned flags = 0;
  int active = 0;
  CUresult result = cuDevicePrimaryCtxGetState(device, &flags, &active);
  if (result != CUDA_SUCCESS) return result;
  if ((result = cuDevicePrimaryCtxRetain(&context, device)) != CUDA_SUCCESS) return result;
  if (active != 0) cuDevicePrimaryCtxRelease(device);
  return cuCtxSetCurrent(context);
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return Report(cudaErrorInvalidValue);
  *count = 0;
  // Every PyTorch program calls this before it uses a GPU.
  if (!StartTorchOperators()) return Report(cudaErrorNotSupported);
  return WithDriver([=] { return cuDeviceGetCount(count); });
}

MCCS_DRIVER_CALL(cudaSetDevice, UseDevice(device), int device)

cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) {
  return WithDriver([=] {
    CUcontext context = nullptr;
    return cuDevicePrimaryCtxRetain(&context, device);
  });
}

cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return Report(cudaErrorInvalidValue);
  return WithDriver([=] {
    *device = 0;  // the default of each thread
    CUcontext context = nullptr;
    const CUresult result = cuCtxGetCurrent(&context);
    if (result != CUDA_SUCCESS || context == nullptr) return result;
    return cuCtxGetDevice(device);
  });
}

MCCS_DRIVER_CALL(cudaDeviceGetAttribute,
                 cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device),
                 int* value, cudaDeviceAttr attribute, int device)
MCCS_DRIVER_CALL(cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId(text, length, device), char* text,
                 int length, int device)
MCCS_DRIVER_CALL(cudaDeviceGetByPCIBusId, cuDeviceGetByPCIBusId(device, text), int* device,
                 const char* text)
MCCS_DRIVER_CALL(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer(can, device, peer), int* can,
                 int device, int peer)
MCCS_DRIVER_CALL(cudaDeviceGetP2PAttribute,
                 cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attribute),
                                         device, peer),
                 int* value, cudaDeviceP2PAttr attribute, int device, int peer)

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return WithContext([=] {
    CUcontext context = nullptr;
    const CUresult result = cuDevicePrimaryCtxRetain(&context, peer);
    return result == CUDA_SUCCESS ? cuCtxEnablePeerAccess(context, flags) : result;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return WithContext([=] {
    CUcontext context = nullptr;
    const CUresult result = cuDevicePrimaryCtxRetain(&context, peer);
    return result == CUDA_SUCCESS ? cuCtxDisablePeerAccess(context) : result;
  });
}

MCCS_CALL(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange(least, greatest),
          int* least, int* greatest)

cudaError_t cudaDeviceSynchronize(void) {
  return WithContext([] { return cuCtxSynchronize(); });
}

cudaError_t cudaDeviceReset(void) {
  return WithContext([] {
    CUdevice device = 0;
    const CUresult result = cuCtxGetDevice(&device);
    return result == CUDA_SUCCESS ? cuDevicePrimaryCtxReset(device) : result;
  });
}

cudaError_t cudaDriverGetVersion(int* version) { return Report(cuDriverGetVersion(version)); }

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return Report(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  if (flags == nullptr) return Report(cudaErrorInvalidValue);
  return WithContext([=] {
    const CUresult result = cuCtxGetFlags(flags);
    *flags |= cudaDeviceMapHost;
    return result;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return WithContext([=] {
    CUdevice device = 0;
    const CUresult result = cuCtxGetDevice(&device);
    return result == CUDA_SUCCESS ? cuDevicePrimaryCtxSetFlags(device, flags) : result;
  });
}

// Limits and cache preferences have no counterpart on the host.
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return Report(EnsureContext()); }
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit) {
  if (value == nullptr) return Report(cudaErrorInvalidValue);
  *value = 0;
  return Report(EnsureContext());
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return Report(EnsureContext()); }
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  if (config == nullptr) return Report(cudaErrorInvalidValue);
  *config = cudaFuncCachePreferNone;
  return Report(EnsureContext());
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr) return Report(cudaErrorInvalidValue);
  return WithDriver([=] {
    auto driver_mode = static_cast<CUstreamCaptureMode>(*mode);
    const CUresult result = cuThreadExchangeStreamCaptureMode(&driver_mode);
    *mode = static_cast<cudaStreamCaptureMode>(driver_mode);
    return result;
  });
}

}  // extern "C"

// ---- Properties --------------------------------------------------------------------------------
//
// cudaGetDeviceProperties: reads the driver's attributes into the fields.

namespace {

struct IntField {
  int cudaDeviceProp::*field;
  CUdevice_attribute attribute;
};
constexpr IntField kIntFields[] = {
    {&cudaDeviceProp::regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
    {&cudaDeviceProp::warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    {&cudaDeviceProp::maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {&cudaDeviceProp::major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {&cudaDeviceProp::minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {&cudaDeviceProp::multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {&cudaDeviceProp::canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
    {&cudaDeviceProp::concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
    {&cudaDeviceProp::ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED},
    {&cudaDeviceProp::pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
    {&cudaDeviceProp::pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
    {&cudaDeviceProp::pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
    {&cudaDeviceProp::asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {&cudaDeviceProp::unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    {&cudaDeviceProp::memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
    {&cudaDeviceProp::l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {&cudaDeviceProp::maxThreadsPerMultiProcessor,
     CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
    {&cudaDeviceProp::globalL1CacheSupported, CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED},
    {&cudaDeviceProp::localL1CacheSupported, CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED},
    {&cudaDeviceProp::regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
    {&cudaDeviceProp::concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
    {&cudaDeviceProp::computePreemptionSupported, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
    {&cudaDeviceProp::canUseHostPointerForRegisteredMem,
     CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
    {&cudaDeviceProp::cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH},
    {&cudaDeviceProp::maxBlocksPerMultiProcessor,
     CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
    {&cudaDeviceProp::memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
    {&cudaDeviceProp::unifiedFunctionPointers, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS},
    {&cudaDeviceProp::hostNumaId, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID},
    {&cudaDeviceProp::deviceNumaId, CU_DEVICE_ATTRIBUTE_NUMA_ID},
};

struct SizeField {
  size_t cudaDeviceProp::*field;
  CUdevice_attribute attribute;
};
constexpr SizeField kSizeFields[] = {
    {&cudaDeviceProp::sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    {&cudaDeviceProp::memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH},
    {&cudaDeviceProp::totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
    {&cudaDeviceProp::textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
    {&cudaDeviceProp::texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT},
    {&cudaDeviceProp::surfaceAlignment, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT},
    {&cudaDeviceProp::sharedMemPerMultiprocessor,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::sharedMemPerBlockOptin,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    {&cudaDeviceProp::reservedSharedMemPerBlock,
     CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK},
};

constexpr CUdevice_attribute kBlockDims[3] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
                                              CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                                              CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
constexpr CUdevice_attribute kGridDims[3] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                                             CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                                             CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};

int Attribute(CUdevice_attribute attribute, CUdevice device) {
  int value = 0;
  cuDeviceGetAttribute(&value, attribute, device);
  return value;
}

CUresult Fill(cudaDeviceProp* properties, CUdevice device) {
  memset(properties, 0, sizeof(*properties));
  const CUresult result = cuDeviceGetName(properties->name, sizeof(properties->name), device);
  if (result != CUDA_SUCCESS) return result;
  CUuuid uuid;
  cuDeviceGetUuid(&uuid, device);
  memcpy(&properties->uuid, &uuid, sizeof(uuid));
  cuDeviceTotalMem(&properties->totalGlobalMem, device);
  for (const IntField& entry : kIntFields) {
    properties->*entry.field = Attribute(entry.attribute, device);
  }
  for (const SizeField& entry : kSizeFields) {
    properties->*entry.field = static_cast<size_t>(Attribute(entry.attribute, device));
  }
  for (int i = 0; i < 3; ++i) {
    properties->maxThreadsDim[i] = Attribute(kBlockDims[i], device);
    properties->maxGridSize[i] = Attribute(kGridDims[i], device);
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) return Report(cudaErrorInvalidValue);
  return WithDriver([=] { return Fill(properties, device); });
}

}  // extern "C"

}  // namespace mccs::emulation
