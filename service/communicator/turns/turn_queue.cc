#include "service/communicator/turns/turn_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace mccs {

TurnQueue::TurnQueue(int64_t quantum) : quantum_(quantum) { MCCS_CHECK(quantum > 0); }

TurnQueue::~TurnQueue() = default;

// ---- Rounds -------------------------------------------------------------------------------------

void TurnQueue::BeginRound(MonotonicNs now) {
  MCCS_CHECK(!in_round_);
  while (NextDeadline() <= now) {
    Participant& participant = *by_deadline_.front();
    RemoveDeadline(participant);
    Enqueue(participant);
  }
  in_round_ = true;
  if (!std::exchange(backlogged_, false)) ++sweeps_;
  ++rounds_;
  round_.clear();
  round_.swap(active_);
  next_ = 0;
  if (round_.empty()) return;
  int64_t most = std::numeric_limits<int64_t>::min();
  for (const Tenant* tenant : round_) most = std::max(most, tenant->credit);
  // If all are in debt, this stands for the rounds in which none of them would get a turn.
  const int64_t quanta = most > 0 ? 1 : 1 - most / quantum_;
  quanta_ += static_cast<uint64_t>(quanta);
  for (Tenant* tenant : round_) tenant->credit += quanta * quantum_;
}

TurnQueue::Participant* TurnQueue::Next() {
  for (; next_ < round_.size(); ++next_) {
    Tenant& tenant = *round_[next_];
    Participant* const first = tenant.first;
    const bool was_due = first != nullptr && first->due_since_ < rounds_;
    if (!was_due || tenant.credit <= 0) {
      // The others of the tenant had their turns in this sweep earlier, or were woken since.
      backlogged_ |= was_due && first->last_sweep_ != sweeps_;
      EndPart(tenant);
      continue;
    }
    Unlist(*first);
    RemoveDeadline(*first);
    if (std::exchange(first->woken_, false)) --woken_;
    ++first->turns_;
    first->last_sweep_ = sweeps_;
    return first;
  }
  in_round_ = false;
  return nullptr;
}

void TurnQueue::EndPart(Tenant& tenant) {
  tenant.credit = std::min<int64_t>(tenant.credit, 0);
  if (tenant.first != nullptr) {
    active_.push_back(&tenant);
    return;
  }
  tenant.active = false;
  tenant.idle_since = quanta_;
  DropIfEmpty(tenant);
}

// ---- Members ------------------------------------------------------------------------------------

void TurnQueue::Add(Participant& participant, const std::string& tenant) {
  std::unique_ptr<Tenant>& found = tenants_[tenant];
  if (found == nullptr) {
    found = std::make_unique<Tenant>();
    found->name = tenant;
  }
  ++found->members;
  participant.tenant_ = found.get();
}

void TurnQueue::Remove(Participant& participant) {
  RemoveDeadline(participant);
  if (participant.woken_) --woken_;
  if (participant.listed_) Unlist(participant);
  LeaveTenant(participant);
}

void TurnQueue::LeaveTenant(Participant& participant) {
  Tenant& tenant = *std::exchange(participant.tenant_, nullptr);
  --tenant.members;
  if (!tenant.active) DropIfEmpty(tenant);
}

void TurnQueue::DropIfEmpty(Tenant& tenant) {
  if (tenant.members == 0) tenants_.erase(tenants_.find(tenant.name));
}

void TurnQueue::MoveTo(Participant& participant, const std::string& tenant) {
  if (participant.tenant_->name == tenant) return;
  const bool listed = participant.listed_;
  if (listed) Unlist(participant);
  LeaveTenant(participant);
  Add(participant, tenant);
  if (listed) List(participant);
}

void TurnQueue::List(Participant& participant) {
  Tenant& tenant = *participant.tenant_;
  participant.listed_ = true;
  participant.due_since_ = rounds_;
  participant.before_ = tenant.last;
  participant.after_ = nullptr;
  (tenant.last != nullptr ? tenant.last->after_ : tenant.first) = &participant;
  tenant.last = &participant;
  if (!tenant.active) Activate(tenant);
}

void TurnQueue::Unlist(Participant& participant) {
  Tenant& tenant = *participant.tenant_;
  (participant.before_ != nullptr ? participant.before_->after_ : tenant.first) =
      participant.after_;
  (participant.after_ != nullptr ? participant.after_->before_ : tenant.last) = participant.before_;
  participant.listed_ = false;
}

// Rounds without it repay its debt.
void TurnQueue::Activate(Tenant& tenant) {
  tenant.active = true;
  active_.push_back(&tenant);
  const uint64_t debt = static_cast<uint64_t>(-tenant.credit);
  const uint64_t quanta = quanta_ - tenant.idle_since;
  const bool repaid = quanta > debt / static_cast<uint64_t>(quantum_);
  tenant.credit = repaid ? 0 : tenant.credit + static_cast<int64_t>(quanta) * quantum_;
}

void TurnQueue::SleepUntil(Participant& participant, MonotonicNs deadline) {
  if (participant.listed_ || deadline == kNever) return;
  participant.deadline_ = deadline;
  by_deadline_.push_back(nullptr);
  Put(by_deadline_.size() - 1, &participant);
  MoveUp(participant.heap_index_);
}

// ---- Deadlines ----------------------------------------------------------------------------------

void TurnQueue::RemoveDeadline(Participant& participant) {
  const size_t gap = std::exchange(participant.heap_index_, Participant::kNoIndex);
  if (gap == Participant::kNoIndex) return;
  Participant* const last = by_deadline_.back();
  by_deadline_.pop_back();
  if (last == &participant) return;
  Put(gap, last);
  MoveUp(gap);
  MoveDown(last->heap_index_);
}

void TurnQueue::Put(size_t place, Participant* participant) {
  by_deadline_[place] = participant;
  participant->heap_index_ = place;
}

void TurnQueue::MoveUp(size_t place) {
  Participant* const participant = by_deadline_[place];
  for (; place > 0; place = (place - 1) / 2) {
    Participant* const above = by_deadline_[(place - 1) / 2];
    if (above->deadline_ <= participant->deadline_) break;
    Put(place, above);
  }
  Put(place, participant);
}

void TurnQueue::MoveDown(size_t place) {
  Participant* const participant = by_deadline_[place];
  for (size_t below = 2 * place + 1; below < by_deadline_.size(); below = 2 * place + 1) {
    const bool right = below + 1 < by_deadline_.size() &&
                       by_deadline_[below + 1]->deadline_ < by_deadline_[below]->deadline_;
    if (right) ++below;
    if (participant->deadline_ <= by_deadline_[below]->deadline_) break;
    Put(place, by_deadline_[below]);
    place = below;
  }
  Put(place, participant);
}

}  // namespace mccs
