// Causes and remedies of the errors of CUDA, for users of this library.
//
// THREAD: any.
#ifndef MCCS_SHIM_CUDA_CUDA_ERROR_H_
#define MCCS_SHIM_CUDA_CUDA_ERROR_H_

#include <cuda.h>

#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace mccs::shim {

// "cause; remedy" of an error whose name does not say both; empty for others.
std::string_view ExplainCudaError(CUresult error);

// The GPU, or this process's context on it, has failed: every later call returns the error, too.
struct GpuFailure {
  CUresult error;
  CUcontext context;
};
// The failure behind a status of CudaError; empty if it is another error.
std::optional<GpuFailure> GpuFailureOf(const absl::Status& status);

// Marks `status` if `error` means that the GPU has failed.
void AttachGpuFailure(const GpuFailure& failure, absl::Status* status);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_CUDA_ERROR_H_
