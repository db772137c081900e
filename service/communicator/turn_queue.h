// Schedules turns: for members that were woken, that are at work, or whose deadline has passed. All
// others cost nothing.
//
//            Wake, or the deadline          Next
//    idle ───────────────────────► due ────────────► in its turn ──Wake, Requeue──► due
//      ▲                                                    │
//      └─────────────────── SleepUntil ─────────────────────┘
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
  // A member; it is idle until it is woken. LIFETIME: the queue outlives it. It must not be
  // destroyed during a round.
  class Participant : public Waker {
   public:
    explicit Participant(TurnQueue& queue) : queue_(queue) {}
    ~Participant() override { queue_.Remove(*this); }
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;

    void Wake() final {
      woken_ = true;
      queue_.Enqueue(*this);
    }
    // Since the start of its last turn.
    bool woken() const { return woken_; }
    // Number of its turns so far.
    uint64_t turns() const { return turns_; }

   private:
    friend class TurnQueue;
    static constexpr size_t kNoIndex = std::numeric_limits<size_t>::max();

    TurnQueue& queue_;
    bool listed_ = false;
    bool woken_ = false;
    uint64_t turns_ = 0;
    MonotonicNs deadline_ = kNever;
    size_t heap_index_ = kNoIndex;  // index in by_deadline_
  };

  // Starts a round: one turn for every member that is due at `now`, in the order of becoming due.
  void BeginRound(MonotonicNs now);
  // The member whose turn it is; null at the end of the round. A member that becomes due during the
  // round gets its turn in the next one.
  Participant* Next();
  // After a turn: the member is due again, or idle until `deadline` (kNever: until woken).
  // SleepUntil has no effect if it was woken since the turn started.
  void Requeue(Participant& participant) { Enqueue(participant); }
  void SleepUntil(Participant& participant, MonotonicNs deadline);

  // Between rounds: members with a turn in the next one, apart from deadlines.
  std::span<Participant* const> due() const { return due_; }
  // The earliest deadline of all idle members.
  MonotonicNs NextDeadline() const {
    return by_deadline_.empty() ? kNever : by_deadline_.front()->deadline_;
  }

 private:
  void Enqueue(Participant& participant) {
    if (participant.listed_) return;
    participant.listed_ = true;
    due_.push_back(&participant);
  }
  void Remove(Participant& participant);
  void RemoveDeadline(Participant& participant);
  void Put(size_t place, Participant* participant);
  void MoveUp(size_t place);
  void MoveDown(size_t place);

  std::vector<Participant*> due_;
  std::vector<Participant*> round_;
  size_t next_ = 0;  // index in round_
  std::vector<Participant*>
      by_deadline_;  // a heap of idle members with a deadline, the earliest first
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_TURN_QUEUE_H_
