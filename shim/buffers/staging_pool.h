// Memory of the tenant that the daemon can map, lent to communicators for staging: on the GPU, or
// of the host if the daemon maps no GPU memory.
//
//   Take ──► lent to a communicator ──returned──► in the pool ──Take, when idle──► lent again
//                                                     └──Trim, when idle──► freed
//
// A block is idle when the last copy out of it has completed, as an event after that copy shows, so
// no call waits. Freeing memory waits for all work of the GPU, as CUDA's free does. So blocks are
// freed only where the program expects to wait (ncclCommDestroy, ncclCommSuspend), not by a call
// that submits work, nor by ncclCommAbort, whose streams may hang.
#ifndef MCCS_SHIM_BUFFERS_STAGING_POOL_H_
#define MCCS_SHIM_BUFFERS_STAGING_POOL_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "shim/buffers/buffer_export.h"
#include "shim/buffers/host_sharing.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

class CaptureLease;

struct StagingBlock {
  DeviceBinding device{};
  CUdeviceptr address = 0;
  uint64_t bytes = 0;
  std::optional<SharedHostMemory> host = std::nullopt;  // none: memory of cuMemAlloc
  CUevent idle = nullptr;   // after the last copy out; complete also before the first one
  bool copies_out = false;  // copies before `idle` write the program's memory
  uint64_t key = 0;         // the borrower's key of a stream or capture
  // The graph whose copies use it, if any: it may be launched at any time.
  std::weak_ptr<CaptureLease> graph;
};

// All staging of one session. THREAD: any.
class StagingPool {
 public:
  // LIFETIME: all outlive the pool.
  StagingPool(const DriverApi& driver, DaemonClient& client, BufferExports& exports)
      : driver_(driver), client_(client), exports_(exports) {}
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  // A block of at least `bytes` on the device: an idle returned one, else a new one. Errors:
  // kUnknown (a CUDA error), with the size and the remedy.
  absl::StatusOr<std::unique_ptr<StagingBlock>> Take(const DeviceBinding& device, uint64_t bytes);

  // Returns a block. REQUIRES: the daemon does not access it once it is idle.
  void Return(std::unique_ptr<StagingBlock> block);

  // Frees returned blocks that are idle. Waits for the work of their GPUs.
  void Trim();

  bool IsIdle(const StagingBlock& block) const;
  // Later work of the stream begins after the copies out of the block, if there are any. REQUIRES:
  // the stream is not captured. Errors: kUnknown, CUDA's.
  absl::Status OrderAfter(StagingBlock& block, CUstream stream) const;

 private:
  absl::StatusOr<std::unique_ptr<StagingBlock>> Allocate(const DeviceBinding& device,
                                                         uint64_t bytes);
  absl::Status AllocateMemory(StagingBlock& block);
  void Free(StagingBlock& block);
  void FreeMemory(StagingBlock& block);

  const DriverApi& driver_;
  DaemonClient& client_;
  BufferExports& exports_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StagingBlock>> returned_;  // guarded by mutex_
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_STAGING_POOL_H_
