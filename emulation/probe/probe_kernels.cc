#include "emulation/probe/probe_kernels.h"

#include <map>
#include <string>

namespace mccs::probe {
namespace {

CUresult LoadLibrary(CUlibrary* library) {
  if (cudaFree(nullptr) != cudaSuccess) return CUDA_ERROR_NOT_INITIALIZED;
  if (!RegisterHostKernels()) return CUDA_ERROR_NOT_SUPPORTED;
  return cuLibraryLoadData(library, mccs_probe_kernels_image, nullptr, nullptr, 0, nullptr, nullptr,
                           0);
}

}  // namespace

CUresult FindKernel(const char* name, CUfunction* function) {
  static CUlibrary library = nullptr;
  static std::map<std::string, CUfunction> found;
  CUfunction& known = found[name];
  CUresult result = CUDA_SUCCESS;
  if (known == nullptr) {
    if (library == nullptr) result = LoadLibrary(&library);
    CUkernel kernel = nullptr;
    if (result == CUDA_SUCCESS) result = cuLibraryGetKernel(&kernel, library, name);
    // A launch takes a CUkernel in place of a function, and finds the one of its context.
    if (result == CUDA_SUCCESS) known = reinterpret_cast<CUfunction>(kernel);
  }
  *function = known;
  return result;
}

CUresult LaunchFunction(CUfunction function, cudaStream_t stream, Shape shape, void** parameters) {
  return cuLaunchKernel(function, shape.blocks, 1, 1, shape.threads, 1, 1, 0, stream, parameters,
                        nullptr);
}

}  // namespace mccs::probe
