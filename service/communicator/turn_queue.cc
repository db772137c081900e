#include "service/communicator/turn_queue.h"

#include <utility>

#include "base/check.h"

namespace mccs {

void TurnQueue::BeginRound(MonotonicNs now) {
  MCCS_CHECK(next_ == round_.size());
  while (NextDeadline() <= now) {
    Taker& taker = *by_deadline_.front();
    ForgetDeadline(taker);
    List(taker);
  }
  round_.swap(due_);
  due_.clear();
  next_ = 0;
}

TurnQueue::Taker* TurnQueue::Next() {
  if (next_ == round_.size()) return nullptr;
  Taker& taker = *round_[next_++];
  ForgetDeadline(taker);
  taker.listed_ = taker.woken_ = false;
  ++taker.turns_;
  return &taker;
}

void TurnQueue::RestUntil(Taker& taker, MonotonicNs deadline) {
  if (taker.listed_ || deadline == kNever) return;
  taker.deadline_ = deadline;
  by_deadline_.push_back(nullptr);
  Put(by_deadline_.size() - 1, &taker);
  MoveUp(taker.place_);
}

void TurnQueue::Remove(Taker& taker) {
  MCCS_CHECK(next_ == round_.size());
  ForgetDeadline(taker);
  if (taker.listed_) std::erase(due_, &taker);
}

// ---- Deadlines ----------------------------------------------------------------------------------

void TurnQueue::ForgetDeadline(Taker& taker) {
  const size_t gap = std::exchange(taker.place_, Taker::kNowhere);
  if (gap == Taker::kNowhere) return;
  Taker* const last = by_deadline_.back();
  by_deadline_.pop_back();
  if (last == &taker) return;
  Put(gap, last);
  MoveUp(gap);
  MoveDown(last->place_);
}

void TurnQueue::Put(size_t place, Taker* taker) {
  by_deadline_[place] = taker;
  taker->place_ = place;
}

void TurnQueue::MoveUp(size_t place) {
  Taker* const taker = by_deadline_[place];
  for (; place > 0; place = (place - 1) / 2) {
    Taker* const above = by_deadline_[(place - 1) / 2];
    if (above->deadline_ <= taker->deadline_) break;
    Put(place, above);
  }
  Put(place, taker);
}

void TurnQueue::MoveDown(size_t place) {
  Taker* const taker = by_deadline_[place];
  for (size_t below = 2 * place + 1; below < by_deadline_.size(); below = 2 * place + 1) {
    const bool right = below + 1 < by_deadline_.size() &&
                       by_deadline_[below + 1]->deadline_ < by_deadline_[below]->deadline_;
    if (right) ++below;
    if (taker->deadline_ <= by_deadline_[below]->deadline_) break;
    Put(place, by_deadline_[below]);
    place = below;
  }
  Put(place, taker);
}

}  // namespace mccs
