#include "shim/cuda/stream_wait.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "proto/fence_page.h"
#include "shim/kernels/await_fence_image.h"

namespace mccs::shim {
namespace {

absl::Status KernelError(const absl::Status& why) {
  return absl::UnknownError(
      absl::StrCat("cannot load the kernel with which streams wait: ", why.message(),
                   "; set MCCS_STREAM_WAIT=memop, which blocks hardware queues: use it only with "
                   "few streams"));
}

}  // namespace

absl::StatusOr<StreamWait> StreamWait::Make(const DriverApi& driver, WaitMethod by) {
  StreamWait wait(driver);
  if (by == WaitMethod::kMemoryOperation) return wait;
  if (!driver.launches_kernels()) {
    return KernelError(absl::UnknownError("this driver lacks cuLibraryLoadData (CUDA 12)"));
  }
  CUlibrary library;
  if (CUresult error = driver.LibraryLoadData(&library, mccs_await_fence_image, nullptr, nullptr, 0,
                                              nullptr, nullptr, 0);
      error != CUDA_SUCCESS) {
    return KernelError(CudaError(driver, error, "cuLibraryLoadData"));
  }
  if (CUresult error = driver.LibraryGetKernel(&wait.kernel_, library, wire::kAwaitFenceKernel);
      error != CUDA_SUCCESS) {
    return KernelError(CudaError(driver, error, "cuLibraryGetKernel"));
  }
  return wait;
}

absl::Status StreamWait::Prepare() const {
  if (kernel_ == nullptr) return absl::OkStatus();
  CUfunction function;
  if (CUresult error = driver_->KernelGetFunction(&function, kernel_); error != CUDA_SUCCESS) {
    return KernelError(CudaError(*driver_, error, "cuKernelGetFunction"));
  }
  if (driver_->FuncLoad == nullptr) return absl::OkStatus();
  const CUresult error = driver_->FuncLoad(function);
  if (error == CUDA_SUCCESS) return absl::OkStatus();
  return KernelError(CudaError(*driver_, error, "cuFuncLoad"));
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
