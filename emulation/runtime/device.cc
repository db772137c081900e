// Devices: enumeration, selection and properties.

#include <cstring>

#include "emulation/runtime/entry.h"
#include "emulation/runtime/torch_operators.h"

using mccs::emulation::EnsureContext;
using mccs::emulation::Report;
using mccs::emulation::WithContext;
using mccs::emulation::WithDriver;

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
  if (!mccs::emulation::StartTorchOperators()) return Report(cudaErrorNotSupported);
  return WithDriver([=] { return cuDeviceGetCount(count); });
}

cudaError_t cudaSetDevice(int device) {
  return WithDriver([=] { return UseDevice(device); });
}

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

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return WithDriver([=] {
    return cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device);
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return WithDriver([=] { return cuDeviceGetPCIBusId(text, length, device); });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return WithDriver([=] { return cuDeviceGetByPCIBusId(device, text); });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return WithDriver([=] { return cuDeviceCanAccessPeer(can, device, peer); });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int device,
                                      int peer) {
  return WithDriver([=] {
    return cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attribute), device,
                                   peer);
  });
}

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

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return WithContext([=] { return cuCtxGetStreamPriorityRange(least, greatest); });
}

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
