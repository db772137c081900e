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
  MCCS_RETURN_IF_ERROR(AllocateMemory(*block));
  if (const CUresult error = driver_.EventCreate(&block->idle, CU_EVENT_DISABLE_TIMING);
      error != CUDA_SUCCESS) {
    FreeMemory(*block);
    return CudaError(driver_, error, "cannot create the event of a staging buffer");
  }
  if (IsLogged(Verbosity::kInfo, Subsystem::kAlloc)) {
    LogLine(Verbosity::kInfo,
            absl::StrCat("staging: ", FormatBytes(block->bytes),
                         block->host ? " of the host for" : " on", " CUDA device ", device.ordinal),
            Subsystem::kAlloc);
  }
  return block;
}

absl::Status StagingPool::AllocateMemory(StagingBlock& block) {
  if (client_.uses_kernels()) {
    MCCS_ASSIGN_OR_RETURN(SharedHostMemory host, ShareHostMemory(driver_, client_, block.bytes));
    block.host.emplace(std::move(host));
    block.address = block.host->address;
    return absl::OkStatus();
  }
  const CUresult error = driver_.MemAlloc(&block.address, block.bytes);
  if (error == CUDA_SUCCESS) return absl::OkStatus();
  return CudaError(
      driver_, error,
      absl::StrCat(
          "cannot allocate ", FormatBytes(block.bytes), " on CUDA device ", block.device.ordinal,
          " to stage buffers that the MCCS daemon cannot map (memory of cudaMalloc or "
          "ncclMemAlloc needs no staging; otherwise free GPU memory or use smaller messages)"));
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

absl::Status StagingPool::OrderAfter(StagingBlock& block, CUstream stream) const {
  if (!block.copies_out) return absl::OkStatus();
  if (IsIdle(block)) {
    block.copies_out = false;
    return absl::OkStatus();
  }
  return CheckCuda(driver_, driver_.StreamWaitEvent(stream, block.idle, 0), "cuStreamWaitEvent");
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

void StagingPool::Free(StagingBlock& block) {
  const ScopedContext context(driver_, block.device.context);
  const RelaxedCapture relaxed(driver_);
  driver_.EventDestroy(block.idle);
  FreeMemory(block);
}

// Memory that another process maps must not be freed: it is leaked if the daemon does not release
// it.
void StagingPool::FreeMemory(StagingBlock& block) {
  if (block.host.has_value()) {
    EndSharing(driver_, client_, *std::move(block.host));
  } else if (exports_.ReleaseRange({block.address, block.bytes})) {
    driver_.MemFree(block.address);
  }
}

}  // namespace mccs::shim
