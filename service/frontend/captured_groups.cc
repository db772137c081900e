#include "service/frontend/captured_groups.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// For each record of a capture: more than it allocates, so that released memory does not grow.
constexpr size_t kFreedPerRecord = 128;

}  // namespace

// ---- Captures -----------------------------------------------------------------------------------

std::optional<absl::Status> CapturedGroups::Add(uint64_t capture, const wire::WorkRecord& record) {
  used_ = true;
  CapturedBudget freed(kFreedPerRecord);
  FreeSome(&freed);
  if (pending_group_ == nullptr) {
    pending_group_ = std::make_unique<CapturedGroup>();
    pending_group_->capture = capture;
    record_error_ = absl::OkStatus();
  }
  if (record_error_.ok()) record_error_ = Accept(capture, record);
  if ((record.flags & wire::kMoreInGroup) != 0) return std::nullopt;
  absl::Status status =
      record_error_.ok() ? Commit() : std::exchange(record_error_, absl::OkStatus());
  DiscardPending();
  return status;
}

absl::Status CapturedGroups::Accept(uint64_t capture, const wire::WorkRecord& record) {
  const bool is_fence = record.record == wire::RecordKind::kFence;
  if (capture != pending_group_->capture ||
      (!is_fence && record.record != wire::RecordKind::kOperation)) {
    return absl::InvalidArgumentError("a captured group is corrupt");
  }
  MCCS_RETURN_IF_ERROR(AddPlace(capture, record));
  if (is_fence) return absl::OkStatus();
  if (absl::Status status = CheckCall(record, caller_); !status.ok()) return Rejected(status);
  if (absl::Status status = runs_.CheckBuffers(record); !status.ok()) return Rejected(status);
  if (calls_ + runs_.released_calls() + CountOf(*pending_group_) >= kMaxCapturedCalls) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too many captured calls: live CUDA graphs have ", kMaxCapturedCalls,
                     " calls of this communicator, which is the limit; destroy unused graphs"));
  }
  if (!HasPeer(record.op)) ++pending_group_->collectives;
  pending_group_->calls.PushBack(record);
  return absl::OkStatus();
}

absl::Status CapturedGroups::Rejected(const absl::Status& why) const {
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", caller_.rank.value(), ", captured call: ", std::string(why.message())));
}

absl::Status CapturedGroups::AddPlace(uint64_t capture, const wire::WorkRecord& record) {
  std::vector<CapturedPlace>& places = pending_group_->places;
  const bool known = std::any_of(places.begin(), places.end(), [&](const CapturedPlace& place) {
    return place.slot == record.ready_slot && place.group == record.ready_value;
  });
  if (known) return absl::OkStatus();
  const auto slot = slots_.find(record.ready_slot);
  const size_t groups = slot == slots_.end() ? 0 : slot->second.groups.size();
  if (record.ready_slot >= wire::kCapturedSlots || places.size() >= wire::kReadySlots ||
      record.ready_value != groups + 1 ||
      (slot != slots_.end() && slot->second.capture != capture)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", caller_.rank.value(), ": group ", record.ready_value, " of slot ",
                     record.ready_slot, " of ", wire::kCapturedSlots, " is unexpected"));
  }
  places.push_back({record.ready_slot, static_cast<uint32_t>(record.ready_value)});
  return absl::OkStatus();
}

absl::Status CapturedGroups::Commit() {
  if (pending_group_->calls.empty())
    return absl::InvalidArgumentError("a captured group has no calls");
  pending_group_->first_key = last_key_ + 1;
  last_key_ += pending_group_->collectives;
  for (const CapturedPlace& place : pending_group_->places) {
    Slot& slot = slots_[place.slot];
    // The word may contain a value of a stream whose capture has ended.
    if (slot.groups.empty()) region_.captured_ready[place.slot].store(0);
    slot.capture = pending_group_->capture;
    slot.groups.PushBack(pending_group_.get());
  }
  Capture& capture = captures_[pending_group_->capture];
  if (capture.groups.empty()) capture.serial = ++last_serial_;
  pending_group_->serial = capture.serial;
  capture.calls += CountOf(*pending_group_);
  calls_ += CountOf(*pending_group_);
  ++size_;
  capture.groups.PushBack(std::move(pending_group_));
  return absl::OkStatus();
}

// It may be long.
void CapturedGroups::DiscardPending() {
  if (pending_group_ == nullptr) return;
  const uint64_t capture = pending_group_->capture;
  ended_.emplace_back()[capture].groups.PushBack(std::move(pending_group_));
}

size_t CapturedGroups::Release(uint64_t capture) {
  const auto released = captures_.find(capture);
  if (released == captures_.end()) return 0;
  std::erase_if(slots_, [&](const auto& slot) { return slot.second.capture == capture; });
  const uint64_t serial = released->second.serial;
  runs_.ReleaseCapture(serial);
  calls_ -= released->second.calls;
  const size_t groups = released->second.groups.size();
  size_ -= groups;
  const bool keeps = runs_.resolving(serial);
  if (keeps) ended_.splice(ended_.end(), kept_);  // Its group is prepared.
  std::list<Captures>& freed = keeps ? kept_ : ended_;
  freed.emplace_back().insert(captures_.extract(released));
  return groups;
}

// ---- Replays ------------------------------------------------------------------------------------

absl::StatusOr<bool> CapturedGroups::Poll(CapturedBudget* budget) {
  MCCS_RETURN_IF_ERROR(runs_.Resolve(budget));
  auto slot = slots_.lower_bound(next_slot_);
  for (size_t looks = slots_.size(); looks > 0; --looks, ++slot) {
    if (runs_.resolving() || budget->left() == 0) break;
    if (slot == slots_.end()) slot = slots_.begin();
    MCCS_RETURN_IF_ERROR(StartIfReached(slot->first, slot->second, budget));
    MCCS_RETURN_IF_ERROR(runs_.Resolve(budget));
  }
  next_slot_ = slot == slots_.end() ? 0 : slot->first;
  return !FreeSome(budget) || runs_.resolving();
}

absl::Status CapturedGroups::StartIfReached(uint32_t index, const Slot& slot,
                                            CapturedBudget* budget) {
  budget->SpendLooks(1);
  // Pairs with the stream's write: makes the stream's earlier writes visible here.
  const uint32_t shown = region_.captured_ready[index].load(std::memory_order_acquire);
  if (shown == 0) return absl::OkStatus();
  if (shown > slot.groups.size()) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", caller_.rank.value(),
                                                   ": captured slot ", index, " shows group ",
                                                   shown, " of ", slot.groups.size()));
  }
  const CapturedGroup& group = *slot.groups[shown - 1];
  budget->SpendLooks(group.places.size());
  return IsReached(group) ? runs_.Begin(group) : absl::OkStatus();
}

bool CapturedGroups::IsReached(const CapturedGroup& group) const {
  return std::all_of(group.places.begin(), group.places.end(), [&](const CapturedPlace& place) {
    return region_.captured_ready[place.slot].load(std::memory_order_acquire) == place.group;
  });
}

// ---- The end ------------------------------------------------------------------------------------

void CapturedGroups::Drop() {
  DiscardPending();
  runs_.Drop();
  slots_.clear();
  if (!captures_.empty()) ended_.push_back(std::exchange(captures_, {}));
  size_ = calls_ = 0;
}

bool CapturedGroups::FreeSome(CapturedBudget* budget) {
  if (!runs_.FreeSome(budget)) return false;
  if (!kept_.empty() && !runs_.resolving(kept_.front().begin()->second.serial)) {
    ended_.splice(ended_.end(), kept_);
  }
  while (!ended_.empty()) {
    Captures& captures = ended_.back();
    if (captures.empty()) {
      ended_.pop_back();
      continue;
    }
    Pieces<std::unique_ptr<CapturedGroup>>& groups = captures.begin()->second.groups;
    if (groups.empty()) {
      captures.erase(captures.begin());
      continue;
    }
    if (budget->left() == 0) return false;
    budget->SpendPiece();
    if (!groups.back()->calls.PopPiece()) groups.PopBack();
  }
  return kept_.empty();
}

}  // namespace mccs
