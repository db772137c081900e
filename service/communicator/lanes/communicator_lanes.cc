#include "service/communicator/lanes/communicator_lanes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

absl::StatusOr<std::unique_ptr<LaneSet>> MakeCollectives(LaneSetOptions options) {
  options.messages = false;
  return LaneSet::Make(options);
}

absl::StatusOr<std::unique_ptr<LaneSet>> MakeMessages(LaneSetOptions options) {
  options.collectives = false;
  options.strategy.epoch = kMessagesEpoch;
  return LaneSet::Make(options);
}

absl::Status IllegalTransition(const char* what) {
  return absl::FailedPreconditionError(absl::StrCat("strategy change: ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CommunicatorLanes>> CommunicatorLanes::Make(
    const LaneSetOptions& options) {
  std::unique_ptr<CommunicatorLanes> lanes(new CommunicatorLanes(options));
  lanes->options_.memory = std::make_shared<LaneMemory>(options.budget);
  lanes->current_epoch_ = options.strategy.epoch;
  MCCS_ASSIGN_OR_RETURN(lanes->messages_, MakeMessages(lanes->options_));
  MCCS_ASSIGN_OR_RETURN(lanes->current_, MakeCollectives(lanes->options_));
  return lanes;
}

// ---- Strategy changes ---------------------------------------------------------------------------

absl::Status CommunicatorLanes::OpenNext(const Strategy& strategy) {
  if (next_ != nullptr || old_ != nullptr)
    return IllegalTransition("lanes of an earlier epoch are not closed");
  options_.strategy = strategy;
  options_.memory->allowed = 2 * kMaxLaneMemoryBytes;  // while there are two sets
  absl::StatusOr<std::unique_ptr<LaneSet>> next = MakeCollectives(options_);
  // Reserve now: an operation that finds no memory later would fail the communicator.
  const absl::Status made = next.ok() ? (*next)->ReserveStaging() : next.status();
  if (!made.ok()) {
    options_.memory->allowed = kMaxLaneMemoryBytes;
    return made;
  }
  next_ = std::move(*next);
  for (const HostIndex host : departed_) next_->MarkDeparted(host);
  if (gated_) next_->SetRateLimits(rate_limits_.value_or(RateLimits{}));
  next_epoch_ = strategy.epoch;
  next_status_ = absl::OkStatus();
  return absl::OkStatus();
}

absl::Status CommunicatorLanes::DropNext() {
  if (next_ == nullptr) return IllegalTransition("no next lanes to drop");
  next_.reset();
  options_.memory->allowed = kMaxLaneMemoryBytes;
  return absl::OkStatus();
}

absl::Status CommunicatorLanes::Adopt() {
  if (next_ == nullptr) return IllegalTransition("no next lanes to adopt");
  if (old_ != nullptr) return IllegalTransition("old lanes are not closed");
  old_ = std::exchange(current_, std::exchange(next_, nullptr));
  old_epoch_ = std::exchange(current_epoch_, next_epoch_);
  old_drained_ = false;
  messages_->MoveTo(options_.strategy);
  return absl::OkStatus();
}

bool CommunicatorLanes::OldDrained() {
  if (old_ == nullptr) return true;
  if (old_drained_ || !old_->drained()) return old_drained_;
  old_drained_ = true;
  old_->TolerateLosses();
  return true;
}

absl::Status CommunicatorLanes::CloseOld() {
  if (old_ == nullptr) return IllegalTransition("no old lanes to close");
  old_.reset();
  options_.memory->allowed = kMaxLaneMemoryBytes;
  return absl::OkStatus();
}

void CommunicatorLanes::MoveTo(const Strategy& strategy) {
  current_->MoveTo(strategy);
  messages_->MoveTo(strategy);
}

// ---- Rates --------------------------------------------------------------------------------------

void CommunicatorLanes::SetRateLimits(const RateLimits& limits) {
  if (rate_limits_.has_value() && limits.revision < rate_limits_->revision) return;
  rate_limits_ = limits;
  options_.pacing->RecordClass(limits.priority);
  if (gated_ || !limits.IsUnlimited()) Gate();
}

void CommunicatorLanes::Gate() {
  gated_ = true;
  for (LaneSet* set : {messages_.get(), current_.get(), next_.get(), old_.get()}) {
    if (set != nullptr) set->SetRateLimits(rate_limits_.value_or(RateLimits{}));
  }
}

bool CommunicatorLanes::held() const {
  return messages_->held() || current_->held() || (old_ != nullptr && old_->held());
}

// ---- Turns of the engine ------------------------------------------------------------------------

LaneSet* CommunicatorLanes::Find(Epoch epoch) {
  if (epoch == kMessagesEpoch) return messages_.get();
  if (epoch == current_epoch_) return current_.get();
  if (next_ != nullptr && epoch == next_epoch_) return next_.get();
  return old_ != nullptr && epoch == old_epoch_ ? old_.get() : nullptr;
}

void CommunicatorLanes::Accept(const Preamble& preamble, std::unique_ptr<Connection> connection) {
  if (LaneSet* set = Find(preamble.epoch)) set->Accept(preamble, std::move(connection));
}

absl::StatusOr<bool> CommunicatorLanes::Poll() {
  if (!gated_ && options_.pacing != nullptr && options_.pacing->has_classes()) Gate();
  bool moved = false;
  absl::Status in_use;
  const auto poll = [this](LaneSet& set) {
    const int64_t before = set.cost();
    absl::StatusOr<bool> set_moved = set.Poll();
    cost_ += set.cost() - before;
    return set_moved;
  };
  for (LaneSet* set : {messages_.get(), current_.get(), old_.get()}) {
    if (set == nullptr) continue;
    const absl::StatusOr<bool> set_moved = poll(*set);  // every set, even after one has failed
    in_use.Update(set_moved.status());
    moved |= set_moved.ok() && *set_moved;
  }
  if (next_ != nullptr && next_status_.ok()) {
    const absl::StatusOr<bool> next_moved = poll(*next_);
    next_status_ = next_moved.status();
    moved |= !next_moved.ok() || *next_moved;
  }
  lost_ = !in_use.ok();
  if (lost_) return in_use;
  return moved;
}

bool CommunicatorLanes::drained() const {
  return messages_->drained() && current_->drained() && (old_ == nullptr || old_->drained());
}

void CommunicatorLanes::MarkDeparted(HostIndex host) {
  departed_.push_back(host);
  for (LaneSet* set : {messages_.get(), current_.get(), next_.get(), old_.get()}) {
    if (set != nullptr) set->MarkDeparted(host);
  }
}

LaneSet::MemoryRelease CommunicatorLanes::ReleaseLaneMemory(MemoryReleaseCursor* next) {
  if (next_ != nullptr || old_ != nullptr) return LaneSet::MemoryRelease::kNone;
  const LaneSet::MemoryRelease messages = messages_->ReleaseLaneMemory(&next->messages);
  if (messages == LaneSet::MemoryRelease::kSome) return messages;
  const LaneSet::MemoryRelease current = current_->ReleaseLaneMemory(&next->current);
  return messages == LaneSet::MemoryRelease::kAll ? current : messages;
}

MonotonicNs CommunicatorLanes::NextDeadline() const {
  if (lost_) return kNever;
  MonotonicNs next = std::min(messages_->NextDeadline(), current_->NextDeadline());
  if (next_ != nullptr && next_status_.ok()) next = std::min(next, next_->NextDeadline());
  return old_ != nullptr ? std::min(next, old_->NextDeadline()) : next;
}

void CommunicatorLanes::ForEachSet(
    const std::function<void(const char* name, const LaneSet& set)>& look) const {
  look("messages", *messages_);
  look("current", *current_);
  if (next_ != nullptr) look("next", *next_);
  if (old_ != nullptr) look("old", *old_);
}

std::vector<agent::v1::Lane> CommunicatorLanes::Stats() const {
  std::vector<agent::v1::Lane> stats = current_->Stats();
  std::ranges::move(messages_->Stats(), std::back_inserter(stats));
  return stats;
}

}  // namespace mccs
