#include "service/frontend/captured_groups.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

// ---- Captures -----------------------------------------------------------------------------------

std::optional<absl::Status> CapturedGroups::Add(uint64_t capture, const wire::WorkRecord& record) {
  if (pending_group_ == nullptr) {
    pending_group_ = std::make_unique<Group>();
    pending_group_->capture = capture;
    record_error_ = absl::OkStatus();
  }
  if (record_error_.ok()) record_error_ = Accept(capture, record);
  if ((record.flags & wire::kMoreInGroup) != 0) return std::nullopt;
  absl::Status status =
      record_error_.ok() ? Commit() : std::exchange(record_error_, absl::OkStatus());
  pending_group_.reset();
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
  if (calls_ + pending_group_->calls.size() >= kMaxCapturedCalls) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too many captured calls: live CUDA graphs have ", kMaxCapturedCalls,
                     " calls of this communicator, which is the limit; destroy unused graphs"));
  }
  pending_group_->calls.push_back(record);
  return absl::OkStatus();
}

absl::Status CapturedGroups::Rejected(const absl::Status& why) const {
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", caller_.rank.value(), ", captured call: ", std::string(why.message())));
}

absl::Status CapturedGroups::AddPlace(uint64_t capture, const wire::WorkRecord& record) {
  std::vector<Place>& places = pending_group_->places;
  const bool known = std::any_of(places.begin(), places.end(), [&](const Place& place) {
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
  if (absl::Status status = Resolve(*pending_group_); !status.ok()) return Rejected(status);
  last_key_ += pending_group_->collectives.size();
  ReleaseBuffers(*pending_group_);
  for (const Place& place : pending_group_->places) {
    Slot& slot = slots_[place.slot];
    // The word may contain a value of a stream whose capture has ended.
    if (slot.groups.empty()) region_.captured_ready[place.slot].store(0);
    slot.capture = pending_group_->capture;
    slot.groups.push_back(pending_group_.get());
  }
  calls_ += pending_group_->calls.size();
  ++size_;
  groups_[pending_group_->capture].push_back(std::move(pending_group_));
  return absl::OkStatus();
}

void CapturedGroups::Release(uint64_t capture) {
  const auto of_capture = groups_.find(capture);
  if (of_capture == groups_.end()) return;
  std::erase_if(slots_, [&](const auto& slot) { return slot.second.capture == capture; });
  for (std::unique_ptr<Group>& group : of_capture->second) {
    if (group->running) {
      group->released = true;
      released_.push_back(std::move(group));
    } else {
      calls_ -= group->calls.size();
      --size_;
    }
  }
  groups_.erase(of_capture);
}

// ---- Replays ------------------------------------------------------------------------------------

absl::Status CapturedGroups::StartReached() {
  for (const auto& [index, slot] : slots_) {
    // Pairs with the stream's write: makes the stream's earlier writes visible here.
    const uint32_t shown = region_.captured_ready[index].load(std::memory_order_acquire);
    if (shown == 0) continue;
    if (shown > slot.groups.size()) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", caller_.rank.value(),
                                                     ": captured slot ", index, " shows group ",
                                                     shown, " of ", slot.groups.size()));
    }
    Group& group = *slot.groups[shown - 1];
    if (IsReached(group)) MCCS_RETURN_IF_ERROR(Start(group));
  }
  return absl::OkStatus();
}

bool CapturedGroups::IsReached(const Group& group) const {
  return std::all_of(group.places.begin(), group.places.end(), [&](const Place& place) {
    return region_.captured_ready[place.slot].load(std::memory_order_acquire) == place.group;
  });
}

absl::Status CapturedGroups::Start(Group& group) {
  const bool in_use = std::ranges::any_of(
      group.places, [&](const Place& place) { return slots_in_use_.test(place.slot); });
  if (in_use) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", caller_.rank.value(),
                     " launches a captured call again while it runs; launch a graph's instances "
                     "one after the other"));
  }
  if (absl::Status status = Resolve(group); !status.ok()) {
    ReleaseBuffers(group);
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", caller_.rank.value(), " replays a captured call whose buffer was freed or ",
        "deregistered: ", std::string(status.message())));
  }
  for (const Place& place : group.places) {
    region_.captured_ready[place.slot].store(0);
    slots_in_use_.set(place.slot);
  }
  group.running = true;
  ++running_;
  if (!group.collectives.empty()) {
    next_.insert(FindNext(group.first_key), Next{.key = group.first_key, .group = &group});
  }
  if (!group.messages.empty()) {
    with_messages_.insert(FindWithMessage(group.messages.data()), &group);
    untaken_.push_back(&group);
  }
  return absl::OkStatus();
}

absl::Status CapturedGroups::Resolve(Group& group) const {
  for (const wire::WorkRecord& record : group.calls) {
    MCCS_ASSIGN_OR_RETURN(const KernelCall kernel, queues_.CapturedAt(record.ready_slot));
    if (HasPeer(record.op)) {
      ResolvedMessage& message = group.messages.emplace_back();
      MCCS_ASSIGN_OR_RETURN(message, ResolveMessage(record, buffers_));
      message.kernel = queues_.ForMessages(kernel);
      continue;
    }
    ResolvedCollective& call = group.collectives.emplace_back();
    MCCS_ASSIGN_OR_RETURN(call, ResolveCollective(record, caller_, buffers_));
    call.kernel = kernel;
  }
  return absl::OkStatus();
}

// Keeps the containers' capacity for the next run.
void CapturedGroups::ReleaseBuffers(Group& group) {
  group.collectives.clear();
  group.messages.clear();
  group.complete_collectives = group.taken_messages = group.complete_messages = 0;
}

std::vector<CapturedGroups::Next>::const_iterator CapturedGroups::FindNext(uint64_t key) const {
  return std::ranges::lower_bound(next_, key, {}, &Next::key);
}

uint64_t CapturedGroups::NextKey(uint64_t after) const {
  const auto next = FindNext(after + 1);
  return next == next_.end() ? 0 : next->key;
}

const PostedOperation* CapturedGroups::Front(uint64_t key) const {
  const auto next = FindNext(key);
  if (next == next_.end() || next->key != key) return nullptr;
  return &next->group->collectives[next->group->complete_collectives];
}

void CapturedGroups::Complete(uint64_t key) {
  const auto next = next_.begin() + (FindNext(key) - next_.cbegin());
  Group& group = *next->group;
  if (++group.complete_collectives < group.collectives.size()) {
    ++next->key;  // No other group has keys between those of this one: the order stays.
    return;
  }
  next_.erase(next);
  EndIfDone(group);
}

const PostedMessage* CapturedGroups::TakeMessage() {
  if (untaken_.empty()) return nullptr;
  Group& group = *untaken_.front();
  const PostedMessage* const message = &group.messages[group.taken_messages++];
  if (group.taken_messages == group.messages.size()) untaken_.erase(untaken_.begin());
  return message;
}

std::vector<CapturedGroups::Group*>::const_iterator CapturedGroups::FindWithMessage(
    const PostedMessage* address) const {
  return std::ranges::partition_point(with_messages_, [&](const Group* group) {
    const PostedMessage* const end = group->messages.data() + group->messages.size();
    return !std::less<>()(address, end);
  });
}

bool CapturedGroups::CompleteMessage(const PostedMessage& message) {
  const auto found = FindWithMessage(&message);
  if (found == with_messages_.end() || std::less<>()(&message, (*found)->messages.data())) {
    return false;
  }
  Group& group = **found;
  if (++group.complete_messages == group.messages.size()) {
    with_messages_.erase(found);
    EndIfDone(group);
  }
  return true;
}

void CapturedGroups::EndIfDone(Group& group) {
  if (group.complete_collectives == group.collectives.size() &&
      group.complete_messages == group.messages.size()) {
    End(group);
  }
}

void CapturedGroups::End(Group& group) {
  group.running = false;
  --running_;
  ReleaseBuffers(group);
  for (const Place& place : group.places) {
    slots_in_use_.reset(place.slot);
    wire::RaiseFence(region_.captured_done[place.slot], wire::kCapturedDone);
    queues_.RingCaptured(place.slot);
  }
  if (!group.released) return;
  calls_ -= group.calls.size();
  --size_;
  std::erase_if(released_, [&](const auto& released) { return released.get() == &group; });
}

void CapturedGroups::Drop() {
  pending_group_.reset();
  next_.clear();
  untaken_.clear();
  with_messages_.clear();
  slots_in_use_.reset();
  slots_.clear();
  groups_.clear();
  released_.clear();
  running_ = size_ = calls_ = 0;
}

}  // namespace mccs
