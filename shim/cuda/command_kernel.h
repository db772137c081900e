// The kernel by which the daemon runs collectives on this process's GPUs (kernels/run_commands.cu).
// The daemon brings its image.
//
// THREAD: any; immutable once made.
#ifndef MCCS_SHIM_CUDA_COMMAND_KERNEL_H_
#define MCCS_SHIM_CUDA_COMMAND_KERNEL_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// The image as the daemon gave it, unchecked.
struct KernelImageFile {
  UniqueFd file;
  uint64_t bytes = 0;         // 0: no image
  std::string architectures;  // for error messages
};

// A command queue and the words of its kernel's blocks (kernels/kernel_region.h), for kernels.
struct KernelQueueAddresses {
  CUdeviceptr queue;
  CUdeviceptr words;
};

class CommandKernel {
 public:
  // Checks and loads the image. Errors: kInternal (no such file, or another size, or not sealed);
  // kUnknown (a CUDA error). LIFETIME: `driver` outlives it, the file need not. The kernel stays
  // loaded, because streams may hold launches of it.
  static absl::StatusOr<CommandKernel> Make(const DriverApi& driver, const KernelImageFile& image);

  // Loads the kernel onto the current context's GPU. REQUIRES: the context is current, in a relaxed
  // capture.
  absl::Status Prepare() const;

  // The stream runs commands of the queue until the 64 bits at `done` have reached `value` (GEQ).
  // `largest_call_bytes`: of the calls that it runs, the larger of input and output.
  // REQUIRES: the stream's context is current.
  CUresult Enqueue(CUstream stream, const KernelQueueAddresses& queue, CUdeviceptr done,
                   uint64_t value, uint64_t largest_call_bytes) const;

 private:
  CommandKernel(const DriverApi& driver, std::string architectures)
      : driver_(&driver), architectures_(std::move(architectures)) {}

  const DriverApi* driver_;
  std::string architectures_;
  CUkernel kernel_ = nullptr;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_COMMAND_KERNEL_H_
