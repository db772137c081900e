// Memory on GPUs by which the blocks of command kernels meet (kernels/block_words.h), for all
// queues of one communicator on one GPU.
//
//   Take, zeroed ──► lent to a communicator ── its kernels have ended ──► returned ──► lent again
//
// The kernels leave it zeroed. It is never freed: freeing waits for all work of the GPU, which may
// wait for this thread.
#ifndef MCCS_SHIM_CUDA_BLOCK_WORDS_H_
#define MCCS_SHIM_CUDA_BLOCK_WORDS_H_

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/kernel_region.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// All of one session. THREAD: any.
class BlockWordsPool {
 public:
  // LIFETIME: `driver` outlives the pool.
  explicit BlockWordsPool(const DriverApi& driver) : driver_(driver) {}
  BlockWordsPool(const BlockWordsPool&) = delete;

  // The address of kernels::RegionBlockWords on the context's GPU. The first calls allocate it, and
  // wait until it is zeroed. Errors: kUnknown, CUDA's. REQUIRES: the context is current, in a
  // relaxed capture.
  absl::StatusOr<CUdeviceptr> Take(CUcontext context);
  // REQUIRES: no kernel uses it any more, and all have ended by themselves.
  void Return(CUcontext context, CUdeviceptr words);

 private:
  absl::StatusOr<CUdeviceptr> Allocate() const;

  const DriverApi& driver_;
  std::mutex mutex_;
  std::map<CUcontext, std::vector<CUdeviceptr>> returned_;  // guarded by mutex_
};

// The words of one communicator. Its end returns them.
class BlockWordsLease {
 public:
  BlockWordsLease() = default;  // nothing
  // As Take.
  static absl::StatusOr<BlockWordsLease> Of(std::shared_ptr<BlockWordsPool> pool,
                                            CUcontext context);
  BlockWordsLease(BlockWordsLease&& other) noexcept { *this = std::move(other); }
  BlockWordsLease& operator=(BlockWordsLease&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(context_, other.context_);
    std::swap(words_, other.words_);
    return *this;
  }
  ~BlockWordsLease() {
    if (pool_ != nullptr) pool_->Return(context_, words_);
  }

  CUdeviceptr words() const { return words_; }

 private:
  std::shared_ptr<BlockWordsPool> pool_;
  CUcontext context_ = nullptr;
  CUdeviceptr words_ = 0;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_BLOCK_WORDS_H_
