#include "service/device/device.h"

#include <array>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/units.h"

namespace mccs {
namespace {

constexpr size_t kFinishedPerTurn = 64;

}  // namespace

absl::Status PlanTooLarge(const PlanToLoad& plan) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the plan of ", std::string(Name(plan.plan->key.kind)), " needs more than ",
                   FormatBytes(plan.most_bytes), " of memory; use fewer hosts, channels or slots"));
}

void Device::Copy(const RegionCopy& /*copy*/, MemToken /*token*/) { MCCS_CHECK(uses_kernels()); }

bool DispatchFinished(Device& device) {
  std::array<Device::Finished, kFinishedPerTurn> finished;
  const Device::Polled polled = device.Poll(finished);
  for (size_t i = 0; i < polled.finished; ++i) PendingMemOps::OnFinished(finished[i]);
  return polled.worked || polled.finished > 0;
}

}  // namespace mccs
