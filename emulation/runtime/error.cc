// The last error of each thread, error names, and lookup of the driver's functions by name.

#include <cstring>

#include "emulation/core/error_names.h"
#include "emulation/include/mccs_emulation_kernel.h"
#include "emulation/runtime/entry.h"

namespace mccs::emulation {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

constexpr ErrorName kErrors[] = {
#include "cudart_errors.inc"
};

const ErrorName* NameOf(cudaError_t error) { return FindError(kErrors, static_cast<int>(error)); }

}  // namespace

cudaError_t Report(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

CUresult EnsureInitialized() { return cuInit(0); }

CUresult EnsureContext() {
  if (mccsEmulationAssertionFailed() != 0) return CUDA_ERROR_ASSERT;
  CUcontext context = nullptr;
  CUresult result = cuCtxGetCurrent(&context);
  if (result == CUDA_SUCCESS && context != nullptr) return CUDA_SUCCESS;
  if ((result = cuInit(0)) != CUDA_SUCCESS) return result;
  if ((result = cuDevicePrimaryCtxRetain(&context, 0)) != CUDA_SUCCESS) return result;
  return cuCtxSetCurrent(context);
}

extern "C" {

cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError(void) { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  const auto* entry = NameOf(error);
  return entry == nullptr ? "unrecognized error code" : entry->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* entry = NameOf(error);
  return entry == nullptr ? "unrecognized error code" : entry->text;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                             unsigned int version, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult result =
      cuGetProcAddress(symbol, function, static_cast<int>(version), flags, &found);
  if (result != CUDA_SUCCESS) return Report(result);
  if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  const bool silent = status != nullptr || found == CU_GET_PROC_ADDRESS_SUCCESS;
  return silent ? cudaSuccess : Report(cudaErrorSymbolNotFound);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function,
                                                  unsigned int version, unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* status) {
  if (flags == cudaEnableDefault) flags = cudaEnablePerThreadDefaultStream;
  return cudaGetDriverEntryPointByVersion(symbol, function, version, flags, status);
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function,
                                         unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion_ptsz(symbol, function, CUDART_VERSION, flags, status);
}

void* __cudaGetProcAddress(const char* symbol) {
  void* function = nullptr;
  cuGetProcAddress(symbol, &function, CUDART_VERSION, 0, nullptr);
  return function;
}

// Private tables between NVIDIA's own libraries: the emulation has none.
cudaError_t cudaGetExportTable(const void** table, const cudaUUID_t*) {
  if (table != nullptr) *table = nullptr;
  return Report(cudaErrorNotSupported);
}

cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

}  // extern "C"

}  // namespace mccs::emulation
