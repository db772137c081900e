// cudaGetDeviceProperties: reads the driver's attributes into the fields.

#include <cstdio>
#include <cstring>

#include "emulation/runtime/entry.h"

using mccs::emulation::Report;
using mccs::emulation::WithDriver;

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
