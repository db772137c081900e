#include "service/executor/executor.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/status_macros.h"
#include "service/device/device.h"

namespace mccs {
namespace {

constexpr size_t kTokensPerTurn = 64;

}  // namespace

Executor::Executor(Device& device, LaneDirectory& lanes, const LaneShape& shape, int channels) {
  for (int c = 0; c < channels; ++c) {
    runners_.push_back(std::make_unique<ChannelRunner>(device, lanes, shape, ChannelId(c)));
  }
}

absl::Status Executor::Start(const OperationBinding& binding) {
  MCCS_CHECK(!running_);
  MCCS_CHECK(binding.plan->programs.size() == runners_.size());
  for (size_t i = 0; i < runners_.size(); ++i) {
    MCCS_RETURN_IF_ERROR(runners_[i]->Start(binding, binding.plan->programs[i]));
  }
  running_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> Executor::Poll() {
  if (!running_) return false;
  bool moved = false;
  bool all_done = true;
  for (auto& runner : runners_) {
    MCCS_ASSIGN_OR_RETURN(bool runner_moved, runner->Poll());
    moved |= runner_moved;
    all_done &= runner->done();
  }
  if (all_done) running_ = false;
  return moved || all_done;
}

bool Executor::quiescent() const {
  return std::all_of(runners_.begin(), runners_.end(),
                     [](const auto& r) { return r->quiescent(); });
}

std::optional<SliceTag> Executor::mismatched_tag() const {
  for (const auto& runner : runners_) {
    if (runner->mismatched_tag().has_value()) return runner->mismatched_tag();
  }
  return std::nullopt;
}

bool DispatchFinished(Device& device) {
  std::array<MemToken, kTokensPerTurn> tokens;
  const Device::Polled polled = device.Poll(tokens);
  for (size_t i = 0; i < polled.finished; ++i) PendingMemOps::Finished(tokens[i]);
  return polled.worked || polled.finished > 0;
}

}  // namespace mccs
