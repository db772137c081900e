#include "shim/cuda/command_kernel.h"

#include "base/status_macros.h"
#include "kernels/run_commands_image.h"
#include "proto/fence_page.h"
#include "shim/cuda/kernel_loading.h"

namespace mccs::shim {
namespace {

// Each block runs the programs of some channels.
constexpr unsigned kBlocks = 16;
constexpr unsigned kThreads = 512;

}  // namespace

absl::StatusOr<CommandKernel> CommandKernel::Make(const DriverApi& driver) {
  CommandKernel result(driver);
  MCCS_ASSIGN_OR_RETURN(result.kernel_,
                        LoadKernel(driver, mccs_run_commands_image, wire::kRunCommandsKernel));
  return result;
}

absl::Status CommandKernel::Prepare() const { return LoadOntoGpu(*driver_, kernel_); }

CUresult CommandKernel::Enqueue(CUstream stream, CUdeviceptr queue, CUdeviceptr done,
                                uint64_t value) const {
  void* parameters[] = {&queue, &done, &value};
  return driver_->LaunchKernel(reinterpret_cast<CUfunction>(kernel_), kBlocks, 1, 1, kThreads, 1, 1,
                               0, stream, parameters, nullptr);
}

}  // namespace mccs::shim
