// A communicator's region for streams: the addresses of the "ready" and "done" words.
#ifndef MCCS_SHIM_DAEMON_FENCE_H_
#define MCCS_SHIM_DAEMON_FENCE_H_

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/shared_region.h"
#include "kernels/kernel_region.h"
#include "proto/shim_wire.h"
#include "shim/cuda/block_words.h"
#include "shim/cuda/command_kernel.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// Owns the mapping of one communicator region and its registration with CUDA.
// LIFETIME: outlives every stream operation that names its addresses; see RetiredFencePages.
// THREAD: immutable after Open.
class FencePage {
 public:
  // Checks the region's shape and registers it; likewise `kernels`, which has no bytes or is a
  // KernelRegion, with the words of its kernels. REQUIRES: the communicator's context is current.
  static absl::StatusOr<std::unique_ptr<FencePage>> Open(
      const DriverApi& driver, SharedRegion region, SharedRegion kernels = SharedRegion(),
      BlockWordsLease block_words = BlockWordsLease());
  // Needs no current context: makes its own current meanwhile.
  ~FencePage();
  FencePage(const FencePage&) = delete;
  FencePage& operator=(const FencePage&) = delete;

  wire::CommRegion& region() const { return *reinterpret_cast<wire::CommRegion*>(memory_.data()); }

  CUdeviceptr ready_address(uint32_t slot) const {
    return device_base_ + offsetof(wire::CommRegion, ready) + slot * sizeof(wire::FenceLine);
  }
  CUdeviceptr captured_done_address(uint32_t slot) const {
    return device_base_ + offsetof(wire::CommRegion, captured_done) +
           slot * sizeof(wire::FenceLine);
  }
  CUdeviceptr captured_ready_address(uint32_t slot) const {
    return device_base_ + offsetof(wire::CommRegion, captured_ready) + slot * sizeof(uint32_t);
  }
  CUdeviceptr done_address() const { return device_base_ + offsetof(wire::CommRegion, done); }
  // Null: the daemon runs the calls itself.
  kernels::KernelRegion* kernel_region() const {
    return reinterpret_cast<kernels::KernelRegion*>(kernel_memory_.data());
  }
  // REQUIRES: kernel_region().
  KernelQueueAddresses posted_queue(uint32_t slot) const {
    return {.queue = kernel_base_ + offsetof(kernels::KernelRegion, posted) +
                     slot * sizeof(kernels::CommandQueue),
            .words = block_words_.words() + offsetof(kernels::RegionBlockWords, posted) +
                     slot * sizeof(kernels::BlockWords)};
  }
  KernelQueueAddresses captured_queue(uint32_t slot) const {
    return {.queue = kernel_base_ + offsetof(kernels::KernelRegion, captured) +
                     slot * sizeof(kernels::CommandQueue),
            .words = block_words_.words() + offsetof(kernels::RegionBlockWords, captured) +
                     slot * sizeof(kernels::BlockWords)};
  }

 private:
  FencePage(const DriverApi& driver, SharedRegion memory)
      : driver_(driver), memory_(std::move(memory)) {}

  const DriverApi& driver_;
  SharedRegion memory_;
  CUcontext context_ = nullptr;  // in which it is registered; null if not registered
  CUdeviceptr device_base_ = 0;
  SharedRegion kernel_memory_;
  CUdeviceptr kernel_base_ = 0;  // 0: not registered
  BlockWordsLease block_words_;
};

// Writes the failure for the daemon (which is dead, or does not reply) unless there is one already.
// Streams stay blocked. THREAD: any.
void FailLocally(wire::CommRegion& region, wire::ErrorClass error, std::string_view text);

// Releases every stream that waits, or will wait, for work of the region; `captured`: also those of
// graphs. The program has ended the communicator, so it does not use the buffers as results.
// THREAD: any.
void ReleaseStreams(wire::CommRegion& region, bool captured);
// Wakes kernels that sleep (emulation), so that they see that their streams are released.
// `captured`: also those of graphs.
void WakeKernels(kernels::KernelRegion& region, bool captured);

// The last value of `done` that was not poison. THREAD: any.
uint64_t LastDone(const wire::CommRegion& region);

// Keeps the pages of ended communicators. A stream may still hold a wait on a page whose
// communicator is destroyed (the wait is satisfied, but the stream has not reached it). So a page
// is unmapped only after kRetireNs, and when kMinRetiredPages newer ones have followed. The page of
// a communicator that was aborted or failed is never unmapped, because a stream may be stuck in
// front of its wait. So is the page of one whose graphs outlive it, because they may be launched at
// any time. THREAD: any.
class RetiredFencePages {
 public:
  static constexpr size_t kMinRetiredPages = 16;
  static constexpr MonotonicNs kRetireNs = 10 * kNsPerSec;

  void RetirePage(std::unique_ptr<FencePage> page, bool ended_well, MonotonicNs now);

 private:
  struct RetiredPage {
    std::unique_ptr<FencePage> page;
    MonotonicNs since;
  };
  std::mutex mutex_;
  std::vector<RetiredPage> retired_;  // oldest first
  std::vector<std::unique_ptr<FencePage>> permanent_;
};

// Waits on the host for another thread or process: spins briefly, then yields, then sleeps in short
// intervals, because few cores may serve many waiting threads.
class BackoffWait {
 public:
  void Pause();

 private:
  int rounds_ = 0;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_DAEMON_FENCE_H_
