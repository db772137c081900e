// Loads kernels into the driver and onto GPUs.
//
// THREAD: any.
#ifndef MCCS_SHIM_CUDA_KERNEL_LOADING_H_
#define MCCS_SHIM_CUDA_KERNEL_LOADING_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// The kernel stays loaded until the process ends. The image is not needed afterwards. Errors:
// kUnknown (a CUDA error), with the driver's version, the GPU of the current context if there is
// one, `architectures` (for which the image is compiled: "sm_80, sm_90") and the remedy.
absl::StatusOr<CUkernel> LoadKernel(const DriverApi& driver, const void* image, const char* name,
                                    std::string_view architectures);

// Loads it onto the current context's GPU, so that no later call has to, when the GPU may be
// waiting for this process. Errors: as LoadKernel; drivers may report only here that the image does
// not suit the GPU. REQUIRES: the context is current, in a relaxed capture.
absl::Status LoadOntoGpu(const DriverApi& driver, CUkernel kernel, std::string_view architectures);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_KERNEL_LOADING_H_
