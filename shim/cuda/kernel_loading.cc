#include "shim/cuda/kernel_loading.h"

namespace mccs::shim {

absl::StatusOr<CUkernel> LoadKernel(const DriverApi& driver, const void* image, const char* name) {
  if (!driver.launches_kernels())
    return absl::UnknownError("this driver lacks cuLibraryLoadData (CUDA 12)");
  CUlibrary library;
  if (CUresult error =
          driver.LibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
      error != CUDA_SUCCESS) {
    return CudaError(driver, error, "cuLibraryLoadData");
  }
  CUkernel kernel = nullptr;
  if (CUresult error = driver.LibraryGetKernel(&kernel, library, name); error != CUDA_SUCCESS)
    return CudaError(driver, error, "cuLibraryGetKernel");
  return kernel;
}

absl::Status LoadOntoGpu(const DriverApi& driver, CUkernel kernel) {
  CUfunction function;
  if (CUresult error = driver.KernelGetFunction(&function, kernel); error != CUDA_SUCCESS)
    return CudaError(driver, error, "cuKernelGetFunction");
  if (driver.FuncLoad == nullptr) return absl::OkStatus();
  const CUresult error = driver.FuncLoad(function);
  return error == CUDA_SUCCESS ? absl::OkStatus() : CudaError(driver, error, "cuFuncLoad");
}

}  // namespace mccs::shim
