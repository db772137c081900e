#include "service/communicator/turn_queue.h"

#include <utility>

#include "base/check.h"

namespace mccs {

void TurnQueue::BeginRound(MonotonicNs now) {
  MCCS_CHECK(next_ == round_.size());
  while (NextDeadline() <= now) {
    Participant& participant = *by_deadline_.front();
    RemoveDeadline(participant);
    Enqueue(participant);
  }
  round_.swap(due_);
  due_.clear();
  next_ = 0;
}

TurnQueue::Participant* TurnQueue::Next() {
  if (next_ == round_.size()) return nullptr;
  Participant& participant = *round_[next_++];
  RemoveDeadline(participant);
  participant.listed_ = participant.woken_ = false;
  ++participant.turns_;
  return &participant;
}

void TurnQueue::SleepUntil(Participant& participant, MonotonicNs deadline) {
  if (participant.listed_ || deadline == kNever) return;
  participant.deadline_ = deadline;
  by_deadline_.push_back(nullptr);
  Put(by_deadline_.size() - 1, &participant);
  MoveUp(participant.heap_index_);
}

void TurnQueue::Remove(Participant& participant) {
  MCCS_CHECK(next_ == round_.size());
  RemoveDeadline(participant);
  if (participant.listed_) std::erase(due_, &participant);
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
