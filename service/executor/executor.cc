#include "service/executor/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace mccs {

Executor::Executor(Device& device, LaneDirectory& lanes, const LaneShape& shape, int channels)
    : device_(device), shape_(shape) {
  for (int c = 0; c < channels; ++c) channels_.emplace_back(lanes, shape, ChannelId(c));
}

absl::Status Executor::Start(const Operation& operation) {
  MCCS_CHECK(!running_);
  MCCS_ASSIGN_OR_RETURN(Loaded* const loaded, Load(operation));
  operation_ = operation;
  Begin(*loaded);
  loaded->device_plan->Start(operation_.binding);
  running_ = true;
  return absl::OkStatus();
}

absl::StatusOr<Executor::Loaded*> Executor::Load(const Operation& operation) {
  const std::shared_ptr<const Plan>& plan = operation.plan;
  const auto known = std::ranges::find(loaded_, plan, &Loaded::plan);
  if (known != loaded_.end()) {
    loaded_.splice(loaded_.begin(), loaded_, known);
    return &loaded_.front();
  }
  MCCS_CHECK(plan->programs.size() == channels_.size());
  Loaded loading{.plan = plan, .lanes = {}, .feeds = {}, .device_plan = nullptr, .runs = {}};
  PlanToLoad to_load{.plan = plan, .ports = {}, .shape = shape_, .skew = operation.skew};
  for (size_t c = 0; c < channels_.size(); ++c) {
    const Program& program = plan->programs[c];
    loading.lanes.push_back(LanesOf(program));
    MCCS_ASSIGN_OR_RETURN(ProgramFeeds feeds, channels_[c].FeedsOf(program, loading.lanes.back()));
    to_load.ports.push_back(feeds.Ports());
    loading.feeds.push_back(std::move(feeds));
  }
  MCCS_ASSIGN_OR_RETURN(loading.device_plan, device_.Load(std::move(to_load)));
  MakeRoom(loading.device_plan->memory_bytes());
  loaded_.push_front(std::move(loading));
  return &loaded_.front();
}

// Drops the plans that were not used for longest.
void Executor::MakeRoom(uint64_t bytes) {
  for (const Loaded& loaded : loaded_) bytes += loaded.device_plan->memory_bytes();
  while (!loaded_.empty() && (loaded_.size() >= kMaxLoadedPlans || bytes > kMaxLoadedBytes)) {
    bytes -= loaded_.back().device_plan->memory_bytes();
    loaded_.pop_back();
  }
}

void Executor::Begin(Loaded& loaded) {
  loaded.runs.clear();
  loaded.runs.reserve(channels_.size());  // feeds hold their addresses
  for (size_t c = 0; c < channels_.size(); ++c) {
    const Program& program = loaded.plan->programs[c];
    const LaneRun& run = loaded.runs.emplace_back(LaneRun{
        .program = &program,
        .rounds = program.steps.empty() ? 0 : operation_.binding.geometry->rounds(program.channel),
        .skew = operation_.skew,
        .memory = SliceMemory(*loaded.plan, program, operation_.binding),
        .tag = &operation_.tag,
        .stamps = operation_.stamps});
    const ProgramLanes& lanes = loaded.lanes[c];
    const ProgramFeeds& feeds = loaded.feeds[c];
    for (size_t i = 0; i < lanes.sends.size(); ++i) {
      feeds.sends[i]->Begin(run, lanes.sends[i].steps);
    }
    for (size_t i = 0; i < lanes.receives.size(); ++i) {
      feeds.receives[i]->Begin(run, lanes.receives[i].steps);
    }
  }
}

absl::StatusOr<bool> Executor::Poll() {
  if (!running_) return false;
  Loaded& loaded = loaded_.front();
  for (ProgramFeeds& feeds : loaded.feeds) {
    for (ReceiveFeed* feed : feeds.receives) MCCS_RETURN_IF_ERROR(feed->UpdateCounters());
    for (SendFeed* feed : feeds.sends) feed->UpdateCounters();
  }
  MCCS_ASSIGN_OR_RETURN(bool moved, loaded.device_plan->Poll());
  if (operation_.stamps != nullptr && loaded.device_plan->done()) operation_.stamps->OnDeviceDone();
  bool drained = true;
  for (ProgramFeeds& feeds : loaded.feeds) {
    for (ReceiveFeed* feed : feeds.receives) moved |= feed->Receive();
    for (SendFeed* feed : feeds.sends) {
      moved |= feed->Send();
      drained &= feed->drained();
    }
  }
  if (!drained || !loaded.device_plan->done()) return moved;
  running_ = false;
  return true;
}

bool Executor::quiescent() const {
  return std::ranges::all_of(loaded_,
                             [](const Loaded& loaded) { return loaded.device_plan->quiescent(); });
}

std::optional<SliceTag> Executor::mismatched_tag() const {
  if (!running_) return std::nullopt;
  for (const ProgramFeeds& feeds : loaded_.front().feeds) {
    for (const ReceiveFeed* feed : feeds.receives) {
      if (feed->mismatched_tag().has_value()) return feed->mismatched_tag();
    }
  }
  return std::nullopt;
}

}  // namespace mccs
