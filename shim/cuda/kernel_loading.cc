#include "shim/cuda/kernel_loading.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace mccs::shim {
namespace {

// "GPU 0000:81:00.0 has compute capability 7.0, the", or as much of it as is known.
std::string DescribeGpu(const DriverApi& driver) {
  CUdevice device = 0;
  char bus_id[32] = {};
  int major = 0;
  int minor = 0;
  if (driver.CtxGetDevice(&device) != CUDA_SUCCESS ||
      driver.DeviceGetPCIBusId(bus_id, sizeof(bus_id), device) != CUDA_SUCCESS ||
      driver.DeviceGetAttribute == nullptr ||
      driver.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) !=
          CUDA_SUCCESS ||
      driver.DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) !=
          CUDA_SUCCESS) {
    return "the GPU is not known";
  }
  return absl::StrCat("GPU ", bus_id, " has compute capability ", major, ".", minor);
}

std::string DescribeDriver(const DriverApi& driver) {
  int version = 0;
  if (driver.DriverGetVersion(&version) != CUDA_SUCCESS) return "an unknown version of CUDA";
  return absl::StrCat("CUDA ", version / 1000, ".", version % 1000 / 10);
}

// Null: the image is not the cause.
const char* RemedyOf(CUresult error) {
  switch (error) {
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
      return "use a GPU that the kernel is compiled for, or an MCCS release for this GPU";
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return "update NVIDIA's driver to the kernel's version of CUDA or a later one";
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
      return "install libnvidia-ptxjitcompiler.so.1 of this driver, or use a GPU that the kernel "
             "is "
             "compiled for";
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
      return "unset CUDA_DISABLE_PTX_JIT, or use a GPU that the kernel is compiled for";
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_NOT_FOUND:
      return "update NVIDIA's driver, and install mccsd and libnccl.so.2 from the same release";
    default:
      return nullptr;
  }
}

absl::Status LoadError(const DriverApi& driver, CUresult error, std::string_view function,
                       std::string_view architectures) {
  const char* const remedy = RemedyOf(error);
  if (remedy == nullptr) return CudaError(driver, error, function);
  return absl::UnknownError(absl::StrCat(
      "it is compiled for ", absl::string_view(architectures.data(), architectures.size()), "; ",
      CudaError(driver, error, function).message(), ": ", DescribeGpu(driver),
      ", and the driver supports ", DescribeDriver(driver), "; ", remedy));
}

}  // namespace

absl::StatusOr<CUkernel> LoadKernel(const DriverApi& driver, const void* image, const char* name,
                                    std::string_view architectures) {
  if (!driver.launches_kernels()) {
    return absl::UnknownError(absl::StrCat(
        "the driver supports ", DescribeDriver(driver),
        ", which has no cuLibraryLoadData; update NVIDIA's driver to CUDA 12 or later"));
  }
  CUlibrary library;
  if (CUresult error =
          driver.LibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
      error != CUDA_SUCCESS) {
    return LoadError(driver, error, "cuLibraryLoadData", architectures);
  }
  CUkernel kernel = nullptr;
  if (CUresult error = driver.LibraryGetKernel(&kernel, library, name); error != CUDA_SUCCESS)
    return LoadError(driver, error, "cuLibraryGetKernel", architectures);
  return kernel;
}

absl::Status LoadOntoGpu(const DriverApi& driver, CUkernel kernel, std::string_view architectures) {
  CUfunction function;
  if (CUresult error = driver.KernelGetFunction(&function, kernel); error != CUDA_SUCCESS)
    return LoadError(driver, error, "cuKernelGetFunction", architectures);
  if (driver.FuncLoad == nullptr) return absl::OkStatus();
  const CUresult error = driver.FuncLoad(function);
  return error == CUDA_SUCCESS ? absl::OkStatus()
                               : LoadError(driver, error, "cuFuncLoad", architectures);
}

}  // namespace mccs::shim
