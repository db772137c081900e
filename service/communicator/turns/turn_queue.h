// Schedules turns by tenant: for members that were woken, that are at work, or whose deadline has
// passed. All others cost nothing.
//
//            Wake, or the deadline          Next
//    idle ───────────────────────► due ────────────► in its turn ──Wake, Requeue──► due
//      ▲                                                    │
//      └─────────────────── SleepUntil ─────────────────────┘
//
// Tenants share the turns by deficit round-robin (Shreedhar and Varghese, "Efficient Fair Queuing
// using Deficit Round Robin", SIGCOMM 1995). The cost of a turn is known only afterwards, so a
// tenant may overdraw its credit by one turn and repays the debt in later rounds (Adiseshu,
// Parulkar and Varghese, "A Reliable and Scalable Striping Protocol", SIGCOMM 1996). In each round
// a tenant with due members gets one quantum. Its members get turns in the order of becoming due
// while it has credit; the others stay due. Over n rounds, a tenant that always has due members
// gets n × quantum ± the highest cost of one turn, however many members it has. An idle tenant
// gathers no credit.
//
// OWNER: the component that gives the turns. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_TURNS_TURN_QUEUE_H_
#define MCCS_SERVICE_COMMUNICATOR_TURNS_TURN_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/waker.h"

namespace mccs {

class TurnQueue {
  struct Tenant;

 public:
  // A member; it is idle until it is woken. LIFETIME: the queue outlives it.
  class Participant : public Waker {
   public:
    Participant(TurnQueue& queue, const std::string& tenant) : queue_(queue) {
      queue_.Add(*this, tenant);
    }
    ~Participant() override { queue_.Remove(*this); }
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;

    void Wake() final {
      if (!woken_) ++queue_.woken_;
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
    Tenant* tenant_ = nullptr;
    // In the list of its tenant's due members.
    bool listed_ = false;
    Participant* before_ = nullptr;
    Participant* after_ = nullptr;
    uint64_t due_since_ = 0;   // the round in or after which it became due
    uint64_t last_sweep_ = 0;  // of its last turn
    bool woken_ = false;
    uint64_t turns_ = 0;
    MonotonicNs deadline_ = kNever;
    size_t heap_index_ = kNoIndex;  // index in by_deadline_
  };

  // `quantum`: the cost per round of a tenant, in the unit of Charge.
  explicit TurnQueue(int64_t quantum);
  ~TurnQueue();
  TurnQueue(const TurnQueue&) = delete;
  TurnQueue& operator=(const TurnQueue&) = delete;

  // Starts a round, in which the members that are due at `now` get a turn if their tenants' credit
  // suffices. At least one does, if any is due. REQUIRES: !in_round().
  void BeginRound(MonotonicNs now);
  // The member whose turn it is; null at the end of the round. A member that becomes due during the
  // round gets its turn in a later one. The caller may interrupt a round.
  Participant* Next();
  bool in_round() const { return in_round_; }
  // The cost of a turn that the member had. REQUIRES: cost ≥ 0.
  static void Charge(Participant& participant, int64_t cost) {
    participant.tenant_->credit -= cost;
  }
  // After a turn: the member is due again, or idle until `deadline` (kNever: until woken).
  // SleepUntil has no effect if it was woken since the turn started.
  void Requeue(Participant& participant) { Enqueue(participant); }
  void SleepUntil(Participant& participant, MonotonicNs deadline);
  // The member belongs to another tenant from now on.
  void MoveTo(Participant& participant, const std::string& tenant);

  // A member waits for its tenant's credit since the last round. Members that were requeued do not
  // count until all others have had a turn: a round that only they need may wait, as they do.
  bool backlogged() const { return backlogged_; }
  // Some member was woken since the start of its last turn.
  bool any_woken() const { return woken_ > 0; }
  // Members get turns now, without any wake or deadline.
  bool HasWork() const { return any_woken() || in_round_ || backlogged_; }
  // Members that are due now, apart from deadlines. `visit`: void(Participant&).
  template <typename Visit>
  void ForEachDue(const Visit& visit) const {
    for (size_t i = next_; i < round_.size(); ++i) VisitDue(*round_[i], visit);
    for (const Tenant* tenant : active_) VisitDue(*tenant, visit);
  }
  // The earliest deadline of all idle members.
  MonotonicNs NextDeadline() const {
    return by_deadline_.empty() ? kNever : by_deadline_.front()->deadline_;
  }

 private:
  // A tenant with members.
  struct Tenant {
    std::string name;
    size_t members = 0;
    // Due members, the longest due first.
    Participant* first = nullptr;
    Participant* last = nullptr;
    bool active = false;      // in active_, or in the rest of round_
    int64_t credit = 0;       // negative: a debt
    uint64_t idle_since = 0;  // value of quanta_ when it became inactive
  };

  template <typename Visit>
  static void VisitDue(const Tenant& tenant, const Visit& visit) {
    for (Participant* due = tenant.first; due != nullptr; due = due->after_) visit(*due);
  }
  void Add(Participant& participant, const std::string& tenant);
  void Remove(Participant& participant);
  void LeaveTenant(Participant& participant);
  void Enqueue(Participant& participant) {
    if (!participant.listed_) List(participant);
  }
  void List(Participant& participant);
  void Unlist(Participant& participant);
  void Activate(Tenant& tenant);
  // After the tenant's part of the round.
  void EndPart(Tenant& tenant);
  // Deletes it if it has no members.
  void DropIfEmpty(Tenant& tenant);

  void RemoveDeadline(Participant& participant);
  void Put(size_t place, Participant* participant);
  void MoveUp(size_t place);
  void MoveDown(size_t place);

  const int64_t quantum_;
  absl::flat_hash_map<std::string, std::unique_ptr<Tenant>> tenants_;  // by name
  std::vector<Tenant*> active_;  // with due members, for the next round
  std::vector<Tenant*> round_;   // the current round's, from next_ on
  size_t next_ = 0;              // index in round_
  bool in_round_ = false;
  bool backlogged_ = false;
  uint64_t rounds_ = 0;
  uint64_t sweeps_ = 0;  // a sweep is the rounds until no member is backlogged
  uint64_t quanta_ = 0;  // that a tenant which was always active has got
  size_t woken_ = 0;     // number of woken members
  std::vector<Participant*>
      by_deadline_;  // a heap of idle members with a deadline, the earliest first
};

// Gives turns until their cost reaches `most`, or no member is due. `serve`: int64_t(Participant&),
// which gives one turn, charges its cost, sets the time of the next one, and returns the cost.
template <typename Serve>
void ServeTurns(TurnQueue& turns, const Clock& clock, int64_t most, const Serve& serve) {
  if (!turns.in_round()) turns.BeginRound(clock.Now());
  for (int64_t cost = 0; cost < most;) {
    TurnQueue::Participant* const next = turns.Next();
    if (next == nullptr && !turns.backlogged()) return;
    if (next == nullptr) {
      turns.BeginRound(clock.Now());
    } else {
      cost += serve(*next);
    }
  }
}

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_TURNS_TURN_QUEUE_H_
