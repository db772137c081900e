#include "shim/cuda/side_stream.h"

#include "shim/cuda/own_stream.h"

namespace mccs::shim {

SideStream::~SideStream() {
  if (stream_ == nullptr && reached_ == nullptr) return;
  const ScopedContext context(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  if (reached_ != nullptr) driver_.EventDestroy(reached_);
  if (stream_ != nullptr) driver_.StreamDestroy(stream_);
}

absl::StatusOr<CUstream> SideStream::After(CUstream stream) {
  const ScopedContext context(driver_, context_);
  const RelaxedCapture relaxed(driver_);
  CUresult error = CUDA_SUCCESS;
  if (stream_ == nullptr) error = CreateOwnStream(driver_, OwnStreamUse::kKernels, &stream_);
  if (error == CUDA_SUCCESS && reached_ == nullptr) {
    error = driver_.EventCreate(&reached_, CU_EVENT_DISABLE_TIMING);
  }
  if (error == CUDA_SUCCESS) error = driver_.EventRecord(reached_, stream);
  if (error == CUDA_SUCCESS) error = driver_.StreamWaitEvent(stream_, reached_, 0);
  if (error != CUDA_SUCCESS) {
    return CudaError(driver_, error,
                     "cannot order a stream of the library after the program's stream");
  }
  return stream_;
}

}  // namespace mccs::shim
