#include "service/device/gpu/kernel_device.h"

#include <sys/mman.h>

#include <utility>

#include "base/shared_region.h"
#include "base/status_macros.h"
#include "service/device/gpu/kernel_plan.h"
#include "service/device/mapped_memory.h"

namespace mccs {
namespace {

// On the grid of more hosts, steps that run one after the other wait for each other in a circle.
constexpr int32_t kMostGridHosts = 10;

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
void KernelDevice::Discard(std::span<std::byte> bytes) { DiscardWholePages(bytes, MADV_REMOVE); }

Device::Polled KernelDevice::Poll(std::span<Finished> finished) {
  Polled polled = inner_.Poll(finished);
  const Polled copied = copies_.Poll(finished.subspan(polled.finished));
  polled.finished += copied.finished;
  polled.worked |= copied.worked;
  return polled;
}

absl::StatusOr<std::unique_ptr<DevicePlan>> KernelDevice::Load(PlanToLoad plan) {
  // Blocks are ranks, so there are no more hosts.
  if (plan.plan->key.algorithm == Algorithm::kGrid && plan.plan->blocks > kMostGridHosts) {
    return absl::UnimplementedError(absl::StrCat("kernels cannot run an all-to-all of ",
                                                 plan.plan->blocks,
                                                 " ranks on a grid of hosts yet; choose direct "
                                                 "exchanges (algorithms: rules) or use at most ",
                                                 kMostGridHosts, " ranks"));
  }
  return KernelPlan::Make(std::move(plan), [this](uint64_t bytes) { return Allocate(bytes); });
}

}  // namespace mccs
