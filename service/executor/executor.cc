#include "service/executor/executor.h"

#include <algorithm>
#include <utility>

#include "algorithms/staged_plan.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace mccs {

Executor::Executor(Device& device, LaneDirectory& lanes, const LaneShape& shape, int channels,
                   BudgetShare memory)
    : device_(device), shape_(shape), memory_(std::move(memory)) {
  for (int c = 0; c < channels; ++c) channels_.emplace_back(lanes, shape, ChannelId(c));
}

bool Executor::MayStart(const Plan& plan) const {
  if (runs_.empty()) return true;
  if (runs_.size() == kMaxRunningOperations) return false;
  size_t steps = 0;
  for (const Program& program : plan.programs) steps += program.steps.size();
  uint64_t bytes = 0;
  for (const Loaded& loaded : runs_) bytes += loaded.device_plan->memory_bytes();
  return steps <= kMaxOverlappingSteps && bytes <= kMaxLoadedBytes / 2;
}

absl::StatusOr<bool> Executor::Prepare(const Operation& operation) {
  prepared_.staged = false;
  prepared_.why.clear();
  prepared_.reached.clear();
  if (device_.lanes_reach_buffers()) return true;
  if (prepared_.plan != operation.plan) {
    prepared_.plan = nullptr;
    prepared_.uses.clear();
    MCCS_CHECK(operation.plan->programs.size() == channels_.size());
    for (size_t c = 0; c < channels_.size(); ++c) {
      MCCS_RETURN_IF_ERROR(
          channels_[c].AddBufferUses(operation.plan->programs[c], &prepared_.uses));
    }
    prepared_.plan = operation.plan;
  }
  const std::optional<absl::Status> reach = ReachBuffers(operation.binding);
  if (!reach.has_value()) return false;
  prepared_.staged = !reach->ok();
  // Streams never reach memory on a GPU: there is nothing to report.
  if (!reach->ok() && !absl::IsUnimplemented(*reach)) {
    prepared_.why = std::string(reach->message());
  }
  return true;
}

// Asks for all buffers, so that NICs register them at the same time. Of a direct all-to-all over
// 1,000 hosts, 2,000 lanes use the same two buffers over one NIC.
std::optional<absl::Status> Executor::ReachBuffers(const OperationBinding& binding) {
  bool known = true;
  absl::Status all;
  prepared_.asked.clear();
  for (const BufferUse& use : prepared_.uses) {
    const RankMemory& rank = binding.ranks[static_cast<size_t>(use.rank.value())];
    const RegionSpan& buffer = use.space == Space::kInput ? rank.input : rank.output;
    if (buffer.bytes == 0) continue;
    if (!prepared_.asked.emplace(use.lane->reach_domain(), buffer.region).second) continue;
    absl::StatusOr<std::shared_ptr<const void>> reach = use.lane->Reach(*buffer.region);
    if (reach.ok()) {
      if (*reach != nullptr) prepared_.reached.push_back(*std::move(reach));
    } else if (absl::IsUnavailable(reach.status())) {
      known = false;
    } else {
      all.Update(reach.status());
    }
  }
  if (!known || !all.ok()) prepared_.reached.clear();
  if (!known) return std::nullopt;
  return all;
}

absl::Status Executor::Start(const Operation& operation) {
  MCCS_CHECK(MayStart(*operation.plan));
  MCCS_ASSIGN_OR_RETURN(Loaded* const loaded, AddRun(operation));
  loaded->operation = operation;
  loaded->reached = std::exchange(prepared_.reached, {});
  staged_ = prepared_.why;
  Begin(*loaded);
  loaded->device_plan->Start(loaded->operation.binding);
  return absl::OkStatus();
}

absl::StatusOr<Executor::Loaded*> Executor::AddRun(const Operation& operation) {
  const std::shared_ptr<const Plan>& plan = operation.plan;
  const auto known = std::ranges::find_if(idle_, [&](const Loaded& loaded) {
    return loaded.plan == plan && loaded.staged == prepared_.staged;
  });
  if (known != idle_.end()) {
    runs_.splice(runs_.end(), idle_, known);
    return &runs_.back();
  }
  MCCS_CHECK(plan->programs.size() == channels_.size());
  Loaded loading;
  loading.plan = plan;
  loading.staged = prepared_.staged;
  loading.device_form = loading.staged ? StagedFormOf(plan) : plan;
  PlanToLoad to_load{
      .plan = loading.device_form, .ports = {}, .shape = shape_, .skew = operation.skew};
  for (size_t c = 0; c < channels_.size(); ++c) {
    const Program& program = loading.device_form->programs[c];
    loading.lanes.push_back(LanesOf(program));
    MCCS_ASSIGN_OR_RETURN(ProgramFeeds feeds, channels_[c].MakeFeeds(program, loading.lanes[c]));
    to_load.ports.push_back(feeds.Ports());
    loading.feeds.push_back(std::move(feeds));
  }
  MCCS_ASSIGN_OR_RETURN(loading.device_plan, device_.Load(std::move(to_load)));
  loaded_bytes_ += static_cast<int64_t>(loading.device_plan->memory_bytes());
  loading.bytes = loading.device_plan->memory_bytes();
  MCCS_RETURN_IF_ERROR(MakeRoom(loading.bytes));
  runs_.push_back(std::move(loading));
  return &runs_.back();
}

std::shared_ptr<const Plan> Executor::StagedFormOf(const std::shared_ptr<const Plan>& plan) const {
  const auto same = std::ranges::find_if(
      runs_, [&](const Loaded& loaded) { return loaded.plan == plan && loaded.staged; });
  return same != runs_.end() ? same->device_form : std::make_shared<const Plan>(Staged(*plan));
}

absl::Status Executor::MakeRoom(uint64_t bytes) {
  while (!idle_.empty() &&
         (idle_.size() >= kMaxIdlePlans || memory_.held() + bytes > kMaxLoadedBytes)) {
    DropOldestIdle();
  }
  for (;;) {
    const absl::Status taken = memory_.Take(bytes);
    if (taken.ok() || idle_.empty()) return taken;
    DropOldestIdle();
  }
}

void Executor::DropOldestIdle() {
  memory_.Return(idle_.back().bytes);
  idle_.pop_back();
}

void Executor::Begin(Loaded& loaded) {
  const Operation& operation = loaded.operation;
  loaded.runs.clear();
  loaded.runs.reserve(channels_.size());  // feeds hold their addresses
  for (size_t c = 0; c < channels_.size(); ++c) {
    const Program& program = loaded.device_form->programs[c];
    const LaneRun& run = loaded.runs.emplace_back(LaneRun{
        .program = &program,
        .rounds = program.steps.empty() ? 0 : operation.binding.geometry->rounds(program.channel),
        .skew = operation.skew,
        .memory = SliceMemory(*loaded.device_form, program, operation.binding),
        .tag = &operation.tag,
        .stamps = operation.stamps});
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

// Oldest first: a feed continues on its lane as soon as those of earlier operations have left it.
absl::StatusOr<bool> Executor::Poll() {
  bool moved = false;
  for (Loaded& loaded : runs_) {
    polled_programs_ += static_cast<int64_t>(loaded.feeds.size());
    const absl::StatusOr<bool> one_moved = Poll(loaded);
    if (!one_moved.ok()) {
      MCCS_RETURN_IF_ERROR(ErrorIfOldest(loaded, one_moved.status()));
      break;
    }
    moved |= *one_moved;
  }
  moved |= RetireComplete();
  return moved;
}

absl::StatusOr<bool> Executor::PollLast() {
  if (runs_.empty()) return false;
  const absl::StatusOr<bool> moved = Poll(runs_.back());
  if (!moved.ok()) {
    MCCS_RETURN_IF_ERROR(ErrorIfOldest(runs_.back(), moved.status()));
    return false;
  }
  return RetireComplete() || *moved;
}

absl::Status Executor::ErrorIfOldest(const Loaded& loaded, const absl::Status& status) const {
  return &loaded == &runs_.front() ? status : absl::OkStatus();
}

absl::StatusOr<bool> Executor::Poll(Loaded& loaded) {
  for (ProgramFeeds& feeds : loaded.feeds) {
    for (const auto& feed : feeds.receives) MCCS_RETURN_IF_ERROR(feed->UpdateCounters());
    for (const auto& feed : feeds.sends) feed->UpdateCounters();
  }
  MCCS_ASSIGN_OR_RETURN(bool moved, loaded.device_plan->Poll());
  if (OperationStamps* stamps = loaded.operation.stamps;
      stamps != nullptr && loaded.device_plan->done()) {
    stamps->OnDeviceDone();
  }
  for (ProgramFeeds& feeds : loaded.feeds) {
    for (const auto& feed : feeds.receives) moved |= feed->Receive();
    for (const auto& feed : feeds.sends) moved |= feed->Send();
  }
  if (moved && &loaded == &runs_.front()) ++progress_;
  return moved;
}

bool Executor::IsComplete(const Loaded& loaded) {
  if (!loaded.device_plan->done()) return false;
  return std::ranges::all_of(loaded.feeds, [](const ProgramFeeds& feeds) {
    return std::ranges::all_of(feeds.sends, [](const auto& feed) { return feed->drained(); }) &&
           std::ranges::all_of(feeds.receives, [](const auto& feed) { return feed->done(); });
  });
}

bool Executor::RetireComplete() {
  bool moved = false;
  while (!runs_.empty() && IsComplete(runs_.front())) {
    runs_.front().reached.clear();
    idle_.splice(idle_.begin(), runs_, runs_.begin());
    ++progress_;
    moved = true;
  }
  return moved;
}

void Executor::Stop() {
  for (Loaded& loaded : runs_) loaded.device_plan->Stop();
}

bool Executor::quiescent() const {
  const auto is_quiescent = [](const Loaded& loaded) { return loaded.device_plan->quiescent(); };
  return std::ranges::all_of(runs_, is_quiescent) && std::ranges::all_of(idle_, is_quiescent);
}

bool Executor::FindAwaited(size_t* next, size_t most, std::vector<StalledPeer>* found,
                           uint64_t* moved_bytes) const {
  if (runs_.empty()) return false;
  const Loaded& oldest = runs_.front();
  size_t end = 0;  // of the channel's lanes
  for (size_t c = 0; c < oldest.feeds.size(); ++c) {
    const ProgramFeeds& feeds = oldest.feeds[c];
    const ProgramLanes& lanes = oldest.lanes[c];
    const size_t begin = end;
    end += feeds.sends.size() + feeds.receives.size();
    for (; *next < end; ++*next, --most) {
      if (most == 0) return true;
      const size_t s = *next - begin;
      const bool sends = s < feeds.sends.size();
      const size_t r = sends ? 0 : s - feeds.sends.size();
      const std::optional<StallCause> cause =
          sends ? feeds.sends[s]->WaitsFor() : feeds.receives[r]->WaitsFor();
      const HostIndex peer = sends ? lanes.sends[s].peer : lanes.receives[r].peer;
      *moved_bytes += sends ? feeds.sends[s]->moved_bytes() : feeds.receives[r]->moved_bytes();
      if (cause.has_value()) found->push_back({peer, *cause});
    }
  }
  return false;
}

std::optional<SliceTag> Executor::mismatched_tag() const {
  if (runs_.empty()) return std::nullopt;
  for (const ProgramFeeds& feeds : runs_.front().feeds) {
    for (const auto& feed : feeds.receives) {
      if (feed->mismatched_tag().has_value()) return feed->mismatched_tag();
    }
  }
  return std::nullopt;
}

}  // namespace mccs
