// Schedules turns: for members that were woken, that are at work, or whose deadline has passed. All
// others cost nothing.
//
//            Wake, or the deadline          Next
//   resting ──────────────────────► due ────────────► in its turn ──Wake, KeepDue──► due
//      ▲                                                   │
//      └─────────────────── RestUntil ─────────────────────┘
//
// OWNER: the component that gives the turns. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_TURN_QUEUE_H_
#define MCCS_SERVICE_COMMUNICATOR_TURN_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/waker.h"

namespace mccs {

class TurnQueue {
 public:

  // A member; it rests until it is woken. LIFETIME: the queue outlives it. It must not be destroyed
  // during a round.
  class Taker : public Waker {
   public:
    explicit Taker(TurnQueue& queue) : queue_(queue) {}
    ~Taker() override { queue_.Remove(*this); }
    Taker(const Taker&) = delete;
    Taker& operator=(const Taker&) = delete;

    void Wake() final {
      woken_ = true;
      queue_.List(*this);
    }
    // Since the start of its last turn.
    bool woken() const { return woken_; }
    // Number of its turns so far.
    uint64_t turns() const { return turns_; }

   private:
    friend class TurnQueue;
    static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

    TurnQueue& queue_;
    bool listed_ = false;
    bool woken_ = false;
    uint64_t turns_ = 0;
    MonotonicNs deadline_ = kNever;
    size_t place_ = kNowhere;  // index in by_deadline_
  };

  // Starts a round: one turn for every member that is due at `now`, in the order of becoming due.
  void BeginRound(MonotonicNs now);
  // The member whose turn it is; null at the end of the round. A member that becomes due during the
  // round gets its turn in the next one.
  Taker* Next();
  // After a turn: the member is due again, or rests until `deadline` (kNever: until woken).
  // RestUntil has no effect if it was woken since the turn started.
  void KeepDue(Taker& taker) { List(taker); }
  void RestUntil(Taker& taker, MonotonicNs deadline);

  // Between rounds: members with a turn in the next one, apart from deadlines.
  std::span<Taker* const> due() const { return due_; }
  // The earliest deadline of all resting members.
  MonotonicNs NextDeadline() const {
    return by_deadline_.empty() ? kNever : by_deadline_.front()->deadline_;
  }

 private:
  void List(Taker& taker) {
    if (taker.listed_) return;
    taker.listed_ = true;
    due_.push_back(&taker);
  }
  void Remove(Taker& taker);
  void ForgetDeadline(Taker& taker);
  void Put(size_t place, Taker* taker);
  void MoveUp(size_t place);
  void MoveDown(size_t place);

  std::vector<Taker*> due_;
  std::vector<Taker*> round_;
  size_t next_ = 0;  // index in round_
  std::vector<Taker*>
      by_deadline_;  // a heap of resting members with a deadline, the earliest first
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_TURN_QUEUE_H_
