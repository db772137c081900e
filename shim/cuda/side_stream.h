// A stream of the library's own beside the program's, for a kernel that must begin although an
// earlier one on the program's stream has not ended.
//
// THREAD: one at a time.
#ifndef MCCS_SHIM_CUDA_SIDE_STREAM_H_
#define MCCS_SHIM_CUDA_SIDE_STREAM_H_

#include "absl/status/statusor.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

class SideStream {
 public:
  // LIFETIME: `driver` outlives it.
  SideStream(const DriverApi& driver, CUcontext context) : driver_(driver), context_(context) {}
  // Enqueued work still runs.
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  // The side stream; its later work begins after all work that `stream` has now. The first call
  // creates it. REQUIRES: `stream` is of the context, and is not captured.
  absl::StatusOr<CUstream> After(CUstream stream);

 private:
  const DriverApi& driver_;
  const CUcontext context_;
  CUstream stream_ = nullptr;
  CUevent reached_ = nullptr;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_SIDE_STREAM_H_
