#include "shim/cuda/block_words.h"

#include <utility>

#include "base/status_macros.h"
#include "shim/cuda/own_stream.h"

namespace mccs::shim {

absl::StatusOr<CUdeviceptr> BlockWordsPool::Take(CUcontext context) {
  {
    std::lock_guard lock(mutex_);
    std::vector<CUdeviceptr>& returned = returned_[context];
    if (!returned.empty()) {
      const CUdeviceptr words = returned.back();
      returned.pop_back();
      return words;
    }
  }
  return Allocate();
}

void BlockWordsPool::Return(CUcontext context, CUdeviceptr words) {
  std::lock_guard lock(mutex_);
  returned_[context].push_back(words);
}

// The stream is one of its own: others may wait for this process.
absl::StatusOr<CUdeviceptr> BlockWordsPool::Allocate() const {
  CUdeviceptr words = 0;
  MCCS_RETURN_IF_ERROR(CheckCuda(
      driver_, driver_.MemAlloc(&words, sizeof(kernels::RegionBlockWords)), "cuMemAlloc"));
  CUstream stream = nullptr;
  CUresult error = CreateOwnStream(driver_, OwnStreamUse::kCopies, &stream);
  if (error == CUDA_SUCCESS) {
    error = driver_.MemsetD8Async(words, 0, sizeof(kernels::RegionBlockWords), stream);
    if (error == CUDA_SUCCESS) error = driver_.StreamSynchronize(stream);
    driver_.StreamDestroy(stream);
  }
  if (error == CUDA_SUCCESS) return words;
  // They stay allocated: freeing waits for all work of the GPU.
  return CudaError(driver_, error, "cannot clear memory for kernels");
}

absl::StatusOr<BlockWordsLease> BlockWordsLease::Of(std::shared_ptr<BlockWordsPool> pool,
                                                    CUcontext context) {
  BlockWordsLease lease;
  MCCS_ASSIGN_OR_RETURN(lease.words_, pool->Take(context));
  lease.pool_ = std::move(pool);
  lease.context_ = context;
  return lease;
}

}  // namespace mccs::shim
