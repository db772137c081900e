#include "service/device/gpu/kernel_device.h"

#include <sys/mman.h>

#include <utility>

#include "base/check.h"
#include "base/shared_region.h"
#include "base/status_macros.h"
#include "service/device/gpu/kernel_plan.h"

namespace mccs {
namespace {

class SharedMemory final : public Region {
 public:
  SharedMemory(SharedRegion memory, size_t bytes)
      : Region(RegionKind::kStaging, memory.data(), bytes), memory_(std::move(memory)) {
    SetKernelAccess({.kind = wire::ExportKind::kHostMemory, .descriptor = memory_.fd()});
  }

 private:
  const SharedRegion memory_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Region>> KernelDevice::Allocate(size_t bytes) {
  MCCS_ASSIGN_OR_RETURN(SharedRegion memory, SharedRegion::Create("mccs-staging", bytes));
  return std::make_unique<SharedMemory>(std::move(memory), bytes);
}

// The pages belong to a file, from which MADV_REMOVE takes them.
void KernelDevice::Discard(std::span<std::byte> bytes) {
  const uint64_t page = 4096;
  const auto begin = reinterpret_cast<uint64_t>(bytes.data());
  const uint64_t first = (begin + page - 1) / page * page;
  const uint64_t last = (begin + bytes.size()) / page * page;
  if (first >= last) return;
  MCCS_CHECK(madvise(reinterpret_cast<void*>(first), last - first, MADV_REMOVE) == 0);
}

absl::StatusOr<std::unique_ptr<DevicePlan>> KernelDevice::Load(PlanToLoad plan) {
  // On the grid of eleven hosts or more, steps that run one after the other wait for each other in a
  // circle.
  if (plan.plan->key.algorithm == Algorithm::kGrid) return inner_.Load(std::move(plan));
  return KernelPlan::Make(std::move(plan), [this](uint64_t bytes) { return Allocate(bytes); });
}

}  // namespace mccs
