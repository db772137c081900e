// Device memory of the tenant that the daemon can map, lent to communicators that stage buffers
// which it cannot.
//
//   Take ──► lent to a communicator ──Give──► resting ──Take, when idle──► lent again
//                                               └──Trim, when idle──► freed
//
// A block is idle when the last copy out of it has happened: an event behind that copy tells, so
// that nobody waits. Freeing memory waits for all work of the GPU, as CUDA's free does. So blocks
// are freed where the program expects to wait (ncclCommDestroy, ncclCommSuspend), never by a call
// that hands work over, nor by ncclCommAbort, whose streams may hang.
#ifndef MCCS_SHIM_STAGING_POOL_H_
#define MCCS_SHIM_STAGING_POOL_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "shim/buffer_export.h"
#include "shim/driver_api.h"

namespace mccs::shim {

class CaptureLease;

struct StagingBlock {
  DeviceBinding device{};
  CUdeviceptr address = 0;
  uint64_t bytes = 0;
  CUevent idle = nullptr;  // behind the last copy out; complete also before the first one
  uint64_t key = 0;        // the borrower's: whose work it is for
  // Whose graph's copies use it: that may be launched at any time.
  std::weak_ptr<CaptureLease> graph;
};

// All staging of one session. THREAD: any.
class StagingPool {
 public:
  StagingPool(const DriverApi& driver, BufferExports& exports)
      : driver_(driver), exports_(exports) {}
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // A block of at least `bytes` on the device: a resting one that is idle, else a new one. Errors:
  // kUnknown (a CUDA error), naming the bytes and the remedy.
  absl::StatusOr<std::unique_ptr<StagingBlock>> Take(const DeviceBinding& device, uint64_t bytes);

  // REQUIRES: the daemon touches the block no more, once it is idle.
  void Give(std::unique_ptr<StagingBlock> block);

  // Frees what rests and is idle. Waits for the work of the GPUs that it is on.
  void Trim();

  bool IsIdle(const StagingBlock& block) const;

 private:
  absl::StatusOr<std::unique_ptr<StagingBlock>> Allocate(const DeviceBinding& device,
                                                         uint64_t bytes);
  void Free(const StagingBlock& block);

  const DriverApi& driver_;
  BufferExports& exports_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StagingBlock>> resting_;  // guarded by mutex_
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_STAGING_POOL_H_
