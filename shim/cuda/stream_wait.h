// The wait of a stream for a word that the daemon advances
// (docs/decisions/0025-waiting-kernel.md).
//
// THREAD: any; immutable once made.
#ifndef MCCS_SHIM_CUDA_STREAM_WAIT_H_
#define MCCS_SHIM_CUDA_STREAM_WAIT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shim/config/environment.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

class StreamWait {
 public:
  // Loads the kernel if waits use it. Errors: kUnknown (a CUDA error), with the remedy.
  // LIFETIME: `driver` outlives it. The kernel stays loaded, because streams may hold launches of it.
  static absl::StatusOr<StreamWait> Make(const DriverApi& driver, WaitMethod by);

  static StreamWait ByMemoryOperation(const DriverApi& driver) { return StreamWait(driver); }

  // Loads the kernel onto the current context's GPU, so that no later call has to, when the GPU may
  // be waiting for this process. REQUIRES: the context is current, in a relaxed capture.
  absl::Status Prepare() const;

  // The stream continues when the 64 bits at `word` have reached `value` (GEQ). REQUIRES: the
  // stream's context is current.
  CUresult Enqueue(CUstream stream, CUdeviceptr word, uint64_t value) const;

 private:
  explicit StreamWait(const DriverApi& driver) : driver_(&driver) {}

  const DriverApi* driver_;
  CUkernel kernel_ = nullptr;  // null: waits are memory operations
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_STREAM_WAIT_H_
