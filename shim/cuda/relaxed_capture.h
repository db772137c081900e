// Allows, during a capture, calls that CUDA rejects then, such as allocations.
#ifndef MCCS_SHIM_CUDA_RELAXED_CAPTURE_H_
#define MCCS_SHIM_CUDA_RELAXED_CAPTURE_H_

#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// In its scope this thread may make calls that a capture of this or another thread would forbid. It
// must not use a stream that is being captured.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverApi& driver) : driver_(driver) { Exchange(); }
  ~RelaxedCapture() { Exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void Exchange() {
    if (driver_.ThreadExchangeStreamCaptureMode != nullptr) {
      driver_.ThreadExchangeStreamCaptureMode(&mode_);
    }
  }

  const DriverApi& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_RELAXED_CAPTURE_H_
