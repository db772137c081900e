// Leave to do in the midst of a capture what CUDA refuses there, such as allocating.
#ifndef MCCS_SHIM_RELAXED_CAPTURE_H_
#define MCCS_SHIM_RELAXED_CAPTURE_H_

#include "shim/driver_api.h"

namespace mccs::shim {

// In its scope this thread may do what a capture of its own, or of another thread, would forbid. It
// must not touch a stream that captures.
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

#endif  // MCCS_SHIM_RELAXED_CAPTURE_H_
