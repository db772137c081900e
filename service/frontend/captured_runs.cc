#include "service/frontend/captured_runs.h"

#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

// ---- Buffers ------------------------------------------------------------------------------------

absl::StatusOr<ResolvedCollective> CapturedRuns::ResolvedCollectiveOf(
    const wire::WorkRecord& call) const {
  MCCS_ASSIGN_OR_RETURN(const KernelCall kernel, queues_.CapturedAt(call.ready_slot));
  MCCS_ASSIGN_OR_RETURN(ResolvedCollective collective, ResolveCollective(call, caller_, buffers_));
  collective.kernel = kernel;
  return collective;
}

absl::StatusOr<ResolvedMessage> CapturedRuns::ResolvedMessageOf(
    const wire::WorkRecord& call) const {
  MCCS_ASSIGN_OR_RETURN(const KernelCall kernel, queues_.CapturedAt(call.ready_slot));
  MCCS_ASSIGN_OR_RETURN(ResolvedMessage message, ResolveMessage(call, buffers_));
  message.kernel = queues_.ForMessages(kernel);
  message.captured = true;
  return message;
}

absl::Status CapturedRuns::CheckBuffers(const wire::WorkRecord& call) const {
  return HasPeer(call.op) ? ResolvedMessageOf(call).status() : ResolvedCollectiveOf(call).status();
}

// ---- The beginning ------------------------------------------------------------------------------

absl::Status CapturedRuns::Begin(const CapturedGroup& group) {
  const bool in_use = std::ranges::any_of(
      group.places, [&](const CapturedPlace& place) { return slots_in_use_.test(place.slot); });
  if (in_use) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", caller_.rank.value(),
                     " launches a captured call again while it runs; launch a graph's instances "
                     "one after the other"));
  }
  for (const CapturedPlace& place : group.places) {
    region_.captured_ready[place.slot].store(0);
    slots_in_use_.set(place.slot);
  }
  resolving_ = &runs_.emplace_back();
  resolving_->self = std::prev(runs_.end());
  resolving_->group = &group;
  resolving_->serial = group.serial;
  resolving_->calls = group.calls.size();
  resolving_->places = group.places;
  resolving_->first_key = group.first_key;
  resolving_->collectives = Pieces<ResolvedCollective>(group.collectives);
  resolving_->messages = Pieces<Message>(group.calls.size() - group.collectives);
  return absl::OkStatus();
}

absl::Status CapturedRuns::Resolve(CapturedBudget* budget) {
  if (resolving_ == nullptr) return absl::OkStatus();
  Run& run = *resolving_;
  for (; run.resolved < run.calls; ++run.resolved) {
    if (budget->left() == 0) return absl::OkStatus();
    budget->SpendCall();
    if (const absl::Status status = ResolveNext(run); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", caller_.rank.value(), " replays a captured call whose buffer was freed or ",
          "deregistered: ", std::string(status.message())));
    }
  }
  run.group = nullptr;
  resolving_ = nullptr;
  Start(run);
  return absl::OkStatus();
}

absl::Status CapturedRuns::ResolveNext(Run& run) const {
  const wire::WorkRecord& call = run.group->calls[run.resolved];
  if (!HasPeer(call.op)) {
    MCCS_ASSIGN_OR_RETURN(ResolvedCollective collective, ResolvedCollectiveOf(call));
    run.collectives.PushBack(std::move(collective));
    return absl::OkStatus();
  }
  MCCS_ASSIGN_OR_RETURN(ResolvedMessage message, ResolvedMessageOf(call));
  run.messages.PushBack({{std::move(message)}, &run, run.messages.size()});
  return absl::OkStatus();
}

void CapturedRuns::Start(Run& run) {
  if (run.collectives.size() > 0) {
    next_.insert(FindNext(run.first_key), Next{.key = run.first_key, .run = &run});
  }
  const size_t messages = run.messages.size();
  if (messages == 0) return;
  ++runs_with_messages_;
  untaken_.push_back(&run);
  for (size_t i = 0; i < messages; i += Pieces<Message>::kPerPiece) {
    run.open_messages.push_back(run.messages.SizeOfPiece(Pieces<Message>::PieceOf(i)));
  }
}

// ---- Collectives --------------------------------------------------------------------------------

std::vector<CapturedRuns::Next>::const_iterator CapturedRuns::FindNext(uint64_t key) const {
  return std::ranges::lower_bound(next_, key, {}, &Next::key);
}

uint64_t CapturedRuns::FindNextKey(uint64_t after) const {
  const auto next = FindNext(after + 1);
  return next == next_.end() ? 0 : next->key;
}

const PostedOperation* CapturedRuns::Front(uint64_t key) const {
  const auto next = FindNext(key);
  if (next == next_.end() || next->key != key) return nullptr;
  return &next->run->collectives[next->run->complete_collectives];
}

void CapturedRuns::Complete(uint64_t key) {
  const auto next = next_.begin() + (FindNext(key) - next_.cbegin());
  Run& run = *next->run;
  const size_t complete = run.complete_collectives++;
  const size_t piece = run.collectives.PieceOf(complete);
  const bool done = run.complete_collectives == run.collectives.size();
  if (done || run.collectives.PieceOf(complete + 1) != piece) run.collectives.FreePiece(piece);
  if (!done) {
    ++next->key;  // No other group has keys between those of this one: the order stays.
    return;
  }
  next_.erase(next);
  EndIfDone(run);
}

// ---- Messages -----------------------------------------------------------------------------------

const PostedMessage* CapturedRuns::TakeUntaken() {
  Run& run = *untaken_.front();
  const PostedMessage* const message = &run.messages[run.taken_messages++];
  if (run.taken_messages == run.messages.size()) untaken_.erase(untaken_.begin());
  return message;
}

void CapturedRuns::Complete(const Message& message) {
  Run& run = *message.run;
  const size_t piece = run.messages.PieceOf(message.position);
  if (--run.open_messages[piece] == 0) run.messages.FreePiece(piece);
  if (++run.complete_messages == run.messages.size()) {
    --runs_with_messages_;
    EndIfDone(run);
  }
}

// ---- The end ------------------------------------------------------------------------------------

void CapturedRuns::EndIfDone(Run& run) {
  if (run.complete_collectives < run.collectives.size() ||
      run.complete_messages < run.messages.size()) {
    return;
  }
  for (const CapturedPlace& place : run.places) {
    slots_in_use_.reset(place.slot);
    wire::RaiseFence(region_.captured_done[place.slot], wire::kCapturedDone);
    queues_.RingCaptured(place.slot);
  }
  if (run.released) {
    --released_;
    released_calls_ -= run.calls;
  }
  runs_.erase(run.self);
}

void CapturedRuns::ReleaseCapture(uint64_t serial) {
  for (Run& run : runs_) {
    if (run.serial != serial) continue;
    run.released = true;
    ++released_;
    released_calls_ += run.calls;
  }
}

void CapturedRuns::Drop() {
  ended_.splice(ended_.end(), runs_);
  resolving_ = nullptr;
  next_.clear();
  untaken_.clear();
  slots_in_use_.reset();
  runs_with_messages_ = released_ = released_calls_ = 0;
}

bool CapturedRuns::FreeSome(CapturedBudget* budget) {
  while (!ended_.empty()) {
    if (budget->left() == 0) return false;
    budget->SpendPiece(Pieces<Message>::kPerPiece);
    Run& run = ended_.front();
    if (!run.collectives.PopPiece() && !run.messages.PopPiece()) ended_.pop_front();
  }
  return true;
}

}  // namespace mccs
