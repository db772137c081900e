#include "shim/buffers/staging_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "shim/config/diagnostics.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {
namespace {

// Smaller blocks would soon be too small.
constexpr uint64_t kSmallestBlock = 256 * kKiB;

}  // namespace

StagingPool::~StagingPool() { Trim(); }

absl::StatusOr<std::unique_ptr<StagingBlock>> StagingPool::Take(const DeviceBinding& device,
                                                                uint64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    auto best = returned_.end();
    for (auto it = returned_.begin(); it != returned_.end(); ++it) {
      const StagingBlock& block = **it;
      if (block.device.context != device.context || block.bytes < bytes || !IsIdle(block)) continue;
      if (best == returned_.end() || block.bytes < (*best)->bytes) best = it;
    }
    if (best != returned_.end()) {
      std::unique_ptr<StagingBlock> block = std::move(*best);
      returned_.erase(best);
      return block;
    }
  }
  return Allocate(device, bytes);
}

absl::StatusOr<std::unique_ptr<StagingBlock>> StagingPool::Allocate(const DeviceBinding& device,
                                                                    uint64_t bytes) {
  auto block = std::make_unique<StagingBlock>();
  block->device = device;
  block->bytes = std::max(kSmallestBlock, std::bit_ceil(bytes));
  const ScopedContext context(driver_, device.context);
  const RelaxedCapture relaxed(driver_);
  CUresult error = driver_.MemAlloc(&block->address, block->bytes);
  if (error == CUDA_SUCCESS) {
    error = driver_.EventCreate(&block->idle, CU_EVENT_DISABLE_TIMING);
    if (error != CUDA_SUCCESS) driver_.MemFree(block->address);
  }
  if (error != CUDA_SUCCESS) {
    return CudaError(
        driver_, error,
        absl::StrCat(
            "cannot allocate ", FormatBytes(block->bytes), " on CUDA device ", device.ordinal,
            " to stage buffers that the MCCS daemon cannot map (memory of cudaMalloc or "
            "ncclMemAlloc needs no staging; otherwise free GPU memory or use smaller messages)"));
  }
  if (IsLogged(Verbosity::kInfo, Subsystem::kAlloc)) {
    LogLine(
        Verbosity::kInfo,
        absl::StrCat("staging: ", FormatBytes(block->bytes), " on CUDA device ", device.ordinal),
        Subsystem::kAlloc);
  }
  return block;
}

void StagingPool::Return(std::unique_ptr<StagingBlock> block) {
  std::lock_guard lock(mutex_);
  returned_.push_back(std::move(block));
}

bool StagingPool::IsIdle(const StagingBlock& block) const {
  const ScopedContext context(driver_, block.device.context);
  const RelaxedCapture relaxed(driver_);
  return driver_.EventQuery(block.idle) == CUDA_SUCCESS;
}

void StagingPool::Trim() {
  std::vector<std::unique_ptr<StagingBlock>> freed;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(returned_, [&](std::unique_ptr<StagingBlock>& block) {
      if (!IsIdle(*block)) return false;
      freed.push_back(std::move(block));
      return true;
    });
  }
  for (const auto& block : freed) Free(*block);
}

void StagingPool::Free(const StagingBlock& block) {
  // Memory that another process maps must not be freed: it is leaked if the daemon does not release
  // it.
  if (!exports_.ReleaseRange({block.address, block.bytes})) return;
  const ScopedContext context(driver_, block.device.context);
  driver_.EventDestroy(block.idle);
  driver_.MemFree(block.address);
}

}  // namespace mccs::shim
