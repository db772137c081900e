// The fake CUDA's kernel, by which a stream waits.
#include <cstring>

#include "proto/fence_page.h"
#include "tests/unit/shim/fake_cuda_world.h"

namespace mccs::fake_cuda {
namespace {

char the_library;
char the_kernel;

}  // namespace

void FailLibraries(CUresult error) { TheWorld().library_error = error; }

int kernels_prepared() { return TheWorld().kernels_prepared; }

}  // namespace mccs::fake_cuda

using mccs::fake_cuda::Queued;
using mccs::fake_cuda::the_kernel;
using mccs::fake_cuda::the_library;
using mccs::fake_cuda::TheWorld;

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  if (TheWorld().library_error != CUDA_SUCCESS) return TheWorld().library_error;
  // The header that nvcc writes before code for several GPUs (fatbinary_section.h).
  constexpr unsigned kFatbinMagic = 0xba55ed50;
  unsigned magic = 0;
  std::memcpy(&magic, code, sizeof(magic));
  if (magic != kFatbinMagic) return CUDA_ERROR_INVALID_IMAGE;
  *library = reinterpret_cast<CUlibrary>(&the_library);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  if (library != reinterpret_cast<CUlibrary>(&the_library) ||
      std::strcmp(name, mccs::wire::kAwaitFenceKernel) != 0) {
    return CUDA_ERROR_NOT_FOUND;
  }
  *kernel = reinterpret_cast<CUkernel>(&the_kernel);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  ++TheWorld().kernels_prepared;
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned, unsigned, unsigned block_x,
                        unsigned, unsigned, unsigned, CUstream stream, void** parameters, void**) {
  if (function != reinterpret_cast<CUfunction>(&the_kernel)) return CUDA_ERROR_INVALID_HANDLE;
  if (grid_x != 1 || block_x != 1) return CUDA_ERROR_INVALID_VALUE;
  Queued wait{Queued::kWait, *static_cast<CUdeviceptr*>(parameters[0]),
              *static_cast<uint64_t*>(parameters[1])};
  wait.by_kernel = true;
  return Enqueue(stream, wait);
}

}  // extern "C"
