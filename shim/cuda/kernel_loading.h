// Loads kernels that this library contains.
//
// THREAD: any.
#ifndef MCCS_SHIM_CUDA_KERNEL_LOADING_H_
#define MCCS_SHIM_CUDA_KERNEL_LOADING_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// The kernel stays loaded until the process ends. Errors: kUnknown (a CUDA error).
absl::StatusOr<CUkernel> LoadKernel(const DriverApi& driver, const void* image, const char* name);

// Loads it onto the current context's GPU, so that no later call has to, when the GPU may be
// waiting for this process. REQUIRES: the context is current, in a relaxed capture.
absl::Status LoadOntoGpu(const DriverApi& driver, CUkernel kernel);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_KERNEL_LOADING_H_
