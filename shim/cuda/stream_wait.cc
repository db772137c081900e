#include "shim/cuda/stream_wait.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "proto/fence_page.h"
#include "shim/cuda/kernel_loading.h"
#include "shim/kernels/await_fence_image.h"

namespace mccs::shim {
namespace {

// Of shim/kernels/CMakeLists.txt.
constexpr std::string_view kArchitectures = "all generations of CUDA 13.0";

absl::Status KernelError(const absl::Status& why) {
  return absl::UnknownError(absl::StrCat(
      "cannot load the kernel with which streams wait: ", why.message(),
      ". Or set MCCS_STREAM_WAIT=memop, which blocks hardware queues: use it only with "
      "few streams"));
}

}  // namespace

absl::StatusOr<StreamWait> StreamWait::Make(const DriverApi& driver, WaitMethod by) {
  StreamWait wait(driver);
  if (by == WaitMethod::kMemoryOperation) return wait;
  const absl::StatusOr<CUkernel> kernel =
      LoadKernel(driver, mccs_await_fence_image, wire::kAwaitFenceKernel, kArchitectures);
  if (!kernel.ok()) return KernelError(kernel.status());
  wait.kernel_ = *kernel;
  return wait;
}

absl::Status StreamWait::Prepare() const {
  if (kernel_ == nullptr) return absl::OkStatus();
  const absl::Status loaded = LoadOntoGpu(*driver_, kernel_, kArchitectures);
  return loaded.ok() ? loaded : KernelError(loaded);
}

CUresult StreamWait::Enqueue(CUstream stream, CUdeviceptr word, uint64_t value) const {
  if (kernel_ == nullptr) {
    return driver_->StreamWaitValue64(stream, word, value, CU_STREAM_WAIT_VALUE_GEQ);
  }
  void* parameters[] = {&word, &value};
  // CUDA also accepts a CUkernel here, meaning its function on the current context's GPU.
  return driver_->LaunchKernel(reinterpret_cast<CUfunction>(kernel_), 1, 1, 1, 1, 1, 1, 0, stream,
                               parameters, nullptr);
}

}  // namespace mccs::shim
