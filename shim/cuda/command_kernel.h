// The kernel by which the daemon runs collectives on this process's GPUs (kernels/run_commands.cu).
//
// THREAD: any; immutable once made.
#ifndef MCCS_SHIM_CUDA_COMMAND_KERNEL_H_
#define MCCS_SHIM_CUDA_COMMAND_KERNEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

class CommandKernel {
 public:
  // Loads the image. Errors: kUnknown (a CUDA error). LIFETIME: `driver` outlives it. The kernel
  // stays loaded, because streams may hold launches of it.
  static absl::StatusOr<CommandKernel> Make(const DriverApi& driver);

  // Loads the kernel onto the current context's GPU. REQUIRES: the context is current, in a relaxed
  // capture.
  absl::Status Prepare() const;

  // The stream runs commands of the queue at `queue` until the 64 bits at `done` have reached
  // `value` (GEQ). REQUIRES: the stream's context is current.
  CUresult Enqueue(CUstream stream, CUdeviceptr queue, CUdeviceptr done, uint64_t value) const;

 private:
  explicit CommandKernel(const DriverApi& driver) : driver_(&driver) {}

  const DriverApi* driver_;
  CUkernel kernel_ = nullptr;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_COMMAND_KERNEL_H_
