// One communicator on this host: from the first local rank that joins to the last that leaves.
//
//   kForming (forming.h) ──all hosts ready──► kActive ──every local rank has left──► kClosed
//       │                                        │                                      ▲
//       └──────────────── any error ─────────────┴──► kFailed ──likewise, nothing ──────┘
//                                                               in flight
//
// A rank leaves by Destroy, Abort or the death of its process. Its departure has a number: the last
// operation that it took part in (departures.h). Operations up to it complete; the first one after
// it fails the communicator on every rank, with the reason. A rank that leaves in the middle of one
// fails it at once; where it did so by a call (Abort), the others do not hear of that before
// Departures::kPatienceNs: like a call beyond a departure, theirs is found stuck by their own
// watchdogs first. A death or a fault behind it is told at once.
//
// OWNER: CommunicatorTable. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_H_
#define MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_H_

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/ids.h"
#include "proto/daemon_state.pb.h"
#include "proto/unique_id.h"
#include "service/communicator/activity_log.h"
#include "service/communicator/communicator_environment.h"
#include "service/communicator/decided_order.h"
#include "service/communicator/departures.h"
#include "service/communicator/forming.h"
#include "service/communicator/hang_watcher.h"
#include "service/communicator/operation_loop.h"
#include "service/communicator/rank_port.h"
#include "service/communicator/reporter.h"
#include "service/communicator/splits.h"
#include "service/communicator/star_turns.h"
#include "service/messages/message_watcher.h"
#include "service/work_tally.h"

namespace mccs {

// How the engine may wait for this communicator.
enum class Urgency : uint8_t {
  kSleep,    // until a byte or a doorbell
  kBackOff,  // a GPU will write a word and ring no bell
  kSpin,     // work is running
};

class Communicator {
 public:
  enum class State : uint8_t { kForming, kActive, kFailed, kClosed };
  enum class Leaving : uint8_t {
    kAfterPostedWork,  // what the rank has posted is done first (destroy)
    kAtOnce,           // its work in flight fails (abort, death of the process)
  };

  // `waker` asks for a turn (Poll) on its behalf, whenever one is due without its being busy
  // (urgency) or a deadline. LIFETIME: `environment` and `waker` outlive it.
  Communicator(const CommunicatorEnvironment& environment, const JoinRequest& first, Waker& waker);
  ~Communicator();

  // A rank has posted something, or opened or closed a window: it gets a turn. All other calls that
  // need one ask for it themselves.
  void Wake() { waker_.Wake(); }

  // One more local rank; `port` hears InitDone. REQUIRES: joinable().
  void AddRank(const JoinRequest& request, RankPort* port);
  // The rank goes; LetGo() tells `port` when it is free, perhaps at once. kAtOnce overtakes an
  // earlier kAfterPostedWork. `asked`: by a call of its program, which did not die.
  void Leave(RankPort* port, const std::string& why, Leaving how, bool asked);

  // The rank behind `call.port` calls ncclCommSplit; its seat comes with TakeSeats. An error: none
  // will.
  absl::Status Split(Splits::Call call);
  // The rank takes no notice any more of what came of `request`.
  void AbandonSplit(RankPort* port, uint64_t request, const std::string& why) {
    splits_.Abandon(port, request, why);
    Wake();
  }
  // The rank behind `port` ends its work on all ranks. Other communicators can still be made of it.
  void Revoke(RankPort* port, const std::string& why);
  // The same for NCCL_SHRINK_ABORT, which all ranks that stay call one after the other: those that
  // have not called it yet do not hear of a failure until Departures::kPatienceNs have passed.
  void EndForShrink(RankPort* port, const std::string& why);
  bool revoked() const { return revoked_; }
  // Its roster gave it the id of another communicator of this host, in the Poll before this call.
  void EndForTakenId();
  // Who belongs to it; null as long as nobody knows.
  const Membership* members() const {
    return formation_.members.has_value() ? &*formation_.members : nullptr;
  }
  const absl::Status& failure() const { return failure_; }
  // Something is still being written into the window of `rank`, a local one; 0: into any.
  bool WritesInto(Rank rank, uint64_t window) const {
    return messages_ != nullptr && messages_->WritesInto(rank, window);
  }
  // What became of splits since the last call.
  std::vector<Seat> TakeSeats() { return splits_.TakeSeats(); }

  // The rank behind `port` will post nothing for a while, or goes on. When all ranks of this host
  // have said so and their work is done, the lanes' memory is given back, some of it in each turn.
  void Suspend(RankPort* port, bool suspended);

  // What the controller would like. Only the leader's host acts on it.
  void Propose(const Strategy& strategy);
  // How fast it may send from now on, out of this host; the newest revision counts.
  void SetPace(const Pace& pace);

  void AcceptMember(std::unique_ptr<Connection> connection);
  void AcceptLane(const Preamble& preamble, std::unique_ptr<Connection> connection);

  // Microseconds that such a call would take. kFailedPrecondition: it cannot be posted now.
  absl::StatusOr<double> Estimate(const EstimatedCall& call);

  // True when anything moved.
  bool Poll();

  // All that it knows, for an operator; `turns` is not its to know.
  void Tell(state::Communicator* out) const;

  State state() const { return state_; }
  // Its ranks are still being collected.
  bool joinable() const {
    return state_ == State::kForming && forming_->state() == Forming::State::kJoining;
  }
  // The id that ranks brought; other ranks of this host join by it.
  const wire::UniqueId& unique_id() const { return unique_id_; }
  // The communicator's name among daemons, from the roster on.
  CommId id() const { return formation_.id; }
  // What decides how a peer's connection is answered. It changes in turns, or the communicator is
  // woken.
  struct Reach {
    CommId id;
    bool joinable = true;
    bool failed = false;
    std::optional<Epoch> lanes;  // the newest that there are
    friend bool operator==(const Reach&, const Reach&) = default;
  };
  Reach reach() const {
    return {.id = id(),
            .joinable = joinable(),
            .failed = state_ == State::kFailed,
            .lanes = formation_.lanes != nullptr ? std::optional(formation_.lanes->newest_epoch())
                                                 : std::nullopt};
  }
  const Secret& secret() const { return secret_; }
  const std::string& tenant() const { return tenant_; }
  bool quiescent() const {
    return loop_ == nullptr || (loop_->quiescent() && messages_->quiescent());
  }
  // It has failed, and nothing of it points to tenants' memory any more.
  bool has_ended_failed() const { return state_ == State::kFailed && loop_ == nullptr; }
  Urgency urgency() const;
  // When Poll has something to do though nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  // A rank that leaves once its posted work is done.
  struct Draining {
    RankPort* port;
    std::string why;
  };

  void LeaveNow(LocalRank& local, const std::string& why, bool in_order);
  bool LeaveTheDrained();
  bool PollForming();
  bool PollActive();
  void GiveBackMemory();
  absl::StatusOr<bool> PollChange(MonotonicNs now);
  // It has something to send and may not yet, and nothing else goes on that rings no bell.
  bool WaitsForGate() const;
  bool PollStar();
  bool PollClosing();
  void PartFromForming();
  void Hear(const StarMessage& message);
  absl::Status Take(const StarMessage& heard);
  StarPhase phase() const;
  absl::Status TakeDeparture(HostIndex from, const peer::Departed& departed);
  // All ranks of the host. REQUIRES: there are members.
  bool HaveLeft(HostIndex host) const;

  void Enter(State state);
  void CountEpoch();
  // Behind a change of the strategy in force, or of why the last proposal is not.
  void CountChange(Epoch before, Epoch refused_before);
  void Activate();
  void TellOperation(state::Operation* out) const;
  // The most that a local rank has captured into graphs that live.
  size_t ReplayableGroups() const;
  // Whether the local ranks have entered the operation that runs or comes next.
  peer::Entered LookAtLocals() const;
  void StartMessages();
  void LookForHangs(MonotonicNs now);
  void NoteActivity(MonotonicNs now);
  void ReportDeaths(MonotonicNs now);

  // Once; and once more behind a failure that may wait (in_order_), for a cause that may not.
  void Fail(const absl::Status& why, bool tell_others = true);
  void FailAnew(const absl::Status& why, bool tell_others);
  void TellOthers(const absl::Status& why, bool in_order);
  void TellPorts(const absl::Status& named);
  // `why` with the communicator's name.
  absl::Status Named(const absl::Status& why) const;
  void Depart(LocalRank& local, const std::string& why, bool in_order);
  void EndSplitsWithout(Rank rank, const std::string& why);
  // True when there were any.
  bool LetGoOfTheLeaving();
  WorkDone work() const;

  const CommunicatorEnvironment& env_;
  Waker& waker_;
  const wire::UniqueId unique_id_;
  const std::string tenant_;
  const std::shared_ptr<TenantAccount>
      account_;  // of the rank that came first; null: nobody counts
  const Secret secret_;
  State state_ = State::kForming;
  const std::shared_ptr<TenantCounters> counters_;
  GaugeShare counted_;      // among those in this state
  Epoch counted_epoch_{0};  // 0: none
  WorkTally tally_;
  ActivityLog activity_;

  std::vector<LocalRank> locals_;  // by LocalIndex once active
  std::vector<Draining> draining_;
  std::vector<LocalRank> leaving_;  // has left, not let go yet
  std::vector<RankPort*> suspended_;
  bool gives_back_ = false;  // the lanes' memory, as soon as nothing is going on
  CommunicatorLanes::GiveBackPlace give_back_next_;
  Formation formation_;
  std::unique_ptr<Forming> forming_;      // in kForming
  std::optional<DecidedOrder> order_;     // from kActive on
  std::optional<StrategyChange> change_;  // likewise
  std::unique_ptr<OperationLoop> loop_;
  const int64_t patience_ns_;              // of the hang watcher
  std::optional<HangWatcher> watcher_;     // from kActive on
  std::unique_ptr<MessageLoop> messages_;  // as long as loop_
  std::optional<MessageWatcher> message_watcher_;
  std::string held_up_;  // what the watchers say
  Departures departures_;
  Splits splits_;
  absl::Status failure_;
  bool revoked_ = false;   // on purpose; then also failed
  bool in_order_ = false;  // a call of a program made it fail: others are told after a while
  static constexpr MonotonicNs kNever = std::numeric_limits<MonotonicNs>::max();
  MonotonicNs tell_at_ = kNever;      // when ports hear of the failure that have not yet
  MonotonicNs closing_deadline_ = 0;  // of the farewell after a failure; 0: not begun
  WorkDone work_at_end_;              // of the loop that is gone
  Reporter reporter_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_H_
