// Who of many gets a turn: whoever was woken, whoever is at work, and whoever's deadline has come.
// The others cost nothing, however many they are.
//
//            Wake, or the deadline          Next
//   resting ──────────────────────► due ────────────► in its turn ──Wake, KeepDue──► due
//      ▲                                                   │
//      └─────────────────── RestUntil ─────────────────────┘
//
// OWNER: whoever gives the turns. THREAD: the owning engine.
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
  static constexpr MonotonicNs kNever = std::numeric_limits<MonotonicNs>::max();

  // One that takes turns; it rests until it is woken. LIFETIME: the queue outlives it; it does not
  // go while a round is under way.
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
    // Since its last turn began.
    bool woken() const { return woken_; }
    // It has had so many.
    uint64_t turns() const { return turns_; }

   private:
    friend class TurnQueue;
    static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

    TurnQueue& queue_;
    bool listed_ = false;
    bool woken_ = false;
    uint64_t turns_ = 0;
    MonotonicNs deadline_ = kNever;
    size_t place_ = kNowhere;  // in by_deadline_
  };

  // Begins a round: a turn for everybody who is due by now, in the order in which they became due.
  void BeginRound(MonotonicNs now);
  // Whose turn it is; null when the round is over. Who becomes due in the meantime, and has had a
  // turn in this round or was not due, has the next one in the next round.
  Taker* Next();
  // Says behind a turn how the taker goes on, unless it has been woken since: it is due again, or
  // it rests (kNever: until it is woken).
  void KeepDue(Taker& taker) { List(taker); }
  void RestUntil(Taker& taker, MonotonicNs deadline);

  // Between rounds, those who have a turn in the next one but for deadlines.
  std::span<Taker* const> due() const { return due_; }
  // The first of those who rest.
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
  size_t next_ = 0;                  // of round_
  std::vector<Taker*> by_deadline_;  // a heap of those who rest and have one, the first in front
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_TURN_QUEUE_H_
