// One communicator on this host: from the first local rank that joins to the last that leaves.
//
//   kForming ──all hosts ready──► kActive ──every local rank has left──► kClosed
//       │                            │                                      ▲
//       └────────── any error ───────┴──► kFailed ──every local rank has────┘
//                                                   left, nothing in flight
//
// Each state's data has one owner:
//
//              forming_               work_                       failure_
//   kForming   always
//   kActive                           always
//   kFailed    until the other hosts  until nothing is in flight  always
//              know the reason
//   kClosed                           what is left                if it failed
//
// A rank leaves by Destroy, Abort or the death of its process. Its departure carries a number: the
// last operation that the rank took part in (departures.h). Operations up to it complete. The first
// one after it fails the communicator on every rank, with the reason.
//
// A rank that leaves in the middle of an operation fails the communicator at once. If it left by a
// call (Abort), the other ranks are notified only after Departures::kDepartureTimeoutNs, so that
// their own watchdogs find the stuck call first. If a death or a fault follows, they are notified
// at once.
//
// OWNER: CommunicatorTable. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_H_
#define MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/limited_log.h"
#include "proto/daemon_state.pb.h"
#include "proto/unique_id.h"
#include "service/communicator/active_work.h"
#include "service/communicator/links/rank_port.h"
#include "service/communicator/links/star_protocol.h"
#include "service/communicator/membership/communicator_environment.h"
#include "service/communicator/membership/forming.h"
#include "service/communicator/membership/kernel_ranks.h"
#include "service/communicator/membership/splits.h"
#include "service/communicator/reporter.h"
#include "service/communicator/schedule/departures.h"
#include "service/counters.h"
#include "service/urgency.h"

namespace mccs {

class Communicator {
 public:
  enum class State : uint8_t { kForming, kActive, kFailed, kClosed };
  enum class Leaving : uint8_t {
    kAfterPostedWork,  // posted work completes first (destroy)
    kAtOnce,           // work in flight fails (abort, process death)
  };

  // `waker` requests a turn (Poll) when one is due and neither urgency() nor NextDeadline() covers
  // it. LIFETIME: `environment` and `waker` outlive this.
  Communicator(const CommunicatorEnvironment& environment, const JoinRequest& first, Waker& waker);
  ~Communicator();

  // Requests a turn after a rank has posted work or opened or closed a window. All other calls
  // request their turns themselves.
  void Wake() { waker_.Wake(); }

  // Adds a local rank; calls InitDone on `port` when the communicator is ready. Null: the process
  // has died, but other ranks still count on the rank; FailForDepartedRank follows before the next
  // Poll. REQUIRES: joinable().
  void AddRank(const JoinRequest& request, RankPort* port);
  void FailForDepartedRank(Rank rank, const std::string& why);
  // The work of the rank of `port` cannot continue: "rank 1: WHY".
  void FailForRank(RankPort* port, const std::string& why);
  // Removes a rank. Calls OnReleased() on `port` when it is no longer used, perhaps at once.
  // kAtOnce overrides an earlier kAfterPostedWork. `asked`: the program called for it; its process
  // did not die.
  void Leave(RankPort* port, const std::string& why, Leaving how, bool asked);

  // The rank of `call.port` calls ncclCommSplit; TakeSplitResults returns the result. After an
  // error there is no result.
  absl::Status Split(Splits::Call call);
  // The rank is no longer interested in the result of `request`.
  void AbandonSplit(RankPort* port, uint64_t request, const std::string& why) {
    splits_.Abandon(port, request, why);
    Wake();
  }
  // Ends the work of all ranks, on behalf of the rank of `port`. New communicators can still be
  // derived.
  void Revoke(RankPort* port, const std::string& why) { Revoke(port, why, /*by_call=*/false); }
  // Likewise for NCCL_SHRINK_ABORT, which all remaining ranks call. Ranks that have not called it
  // yet are notified of the failure only after Departures::kDepartureTimeoutNs.
  void RevokeForShrink(RankPort* port, const std::string& why) {
    Revoke(port, why, /*by_call=*/true);
  }
  bool revoked() const { return failure_.has_value() && failure_->revoked; }
  // Fails because the roster assigned the id of another communicator of this host. Called after the
  // Poll that received the roster.
  void FailForDuplicateId();
  // Hosts and ranks; null before the roster is known.
  const Membership* members() const {
    return formation_.members.has_value() ? &*formation_.members : nullptr;
  }
  absl::Status failure() const { return failure_.has_value() ? failure_->why : absl::OkStatus(); }
  // A write into the window of local rank `rank` is in progress; window 0 means any.
  bool WritesInto(Rank rank, uint64_t window) const {
    return work_ != nullptr && work_->messages().WritesInto(rank, window);
  }
  // A split has ended. Its ranks join in the next turn of the table.
  bool has_split_results() const { return splits_.has_results(); }
  // Results of splits since the last call.
  std::vector<SplitResult> TakeSplitResults() { return splits_.TakeSplitResults(); }

  // Suspends or resumes the rank of `port`. When all ranks of this host are suspended and their
  // work is done, the lanes' memory is released, a part in each turn.
  void Suspend(RankPort* port, bool suspended);

  // A strategy proposed by the controller. Only the leader's host acts on it.
  void Propose(const Strategy& strategy);
  // Rate limits of this host's lanes. An older revision has no effect.
  void SetRateLimits(const RateLimits& limits);
  // The daemon's Tenants have changed.
  void TenantsChanged();

  // `host`: whose daemon it has proven to be; empty: nothing.
  void AcceptMember(std::unique_ptr<Connection> connection, const std::string& host);
  void AcceptLane(const Preamble& preamble, std::unique_ptr<Connection> connection);

  // Counts the cost (turn_cost.h) of a turn for its tenant.
  void CountTurn(int64_t cost) { counters_->turn_cost.Add(static_cast<uint64_t>(cost)); }

  // Estimated duration of the call in microseconds. Nothing: later turns build its plan; call
  // again. kFailedPrecondition: it cannot be posted now.
  absl::StatusOr<std::optional<double>> Estimate(const EstimatedCall& call);

  // Traces the next operations; null ends it. kFailedPrecondition: the communicator is not active.
  // LIFETIME: `trace`, until the next call or the end of the communicator.
  absl::Status SetTrace(OperationTrace* trace);

  // Returns true if anything moved.
  bool Poll();
  // Its costs to the engine so far, besides its turns as such (turn_cost.h).
  int64_t cost() const;

  // Writes the whole state for an operator, except `turns`.
  void WriteState(state::Communicator* out) const;

  State state() const { return state_; }
  // Local ranks can still join.
  bool joinable() const {
    return state_ == State::kForming && forming_->state() == Forming::State::kJoining;
  }
  // The unique id that ranks passed; other local ranks join by it.
  const wire::UniqueId& unique_id() const { return unique_id_; }
  // The communicator's id among daemons; valid from the roster on.
  CommId id() const { return formation_.id; }
  // The state that decides how a peer's connection is answered. It changes only in turns or with a
  // wake-up.
  struct Reachability {
    CommId id;
    bool joinable = true;
    bool failed = false;
    std::optional<Epoch> lanes;  // newest epoch that has lanes
    friend bool operator==(const Reachability&, const Reachability&) = default;
  };
  Reachability reachability() const {
    return {.id = id(),
            .joinable = joinable(),
            .failed = state_ == State::kFailed,
            .lanes = formation_.lanes != nullptr ? std::optional(formation_.lanes->newest_epoch())
                                                 : std::nullopt};
  }
  const Secret& key() const { return formation_.key; }
  const std::string& tenant() const { return tenant_; }
  bool quiescent() const { return work_ == nullptr || work_->quiescent(); }
  // It has failed and holds no pointer to tenants' memory.
  bool has_ended_failed() const { return state_ == State::kFailed && work_ == nullptr; }
  Urgency urgency() const;
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  // Limits of its Tenant; nothing: it has none. The controller's precede, because their revision is
  // higher.
  static std::optional<RateLimits> LimitsOfTenant(const TenantAccount* account);
  // `limits`, but no more than this host's own Tenant allows.
  RateLimits WithinOwnTenant(RateLimits limits) const;

  // A rank that leaves when its posted work is done.
  struct Draining {
    RankPort* port;
    std::string why;
  };
  // A rank that has left, but whose memory is still in use.
  struct Left {
    LocalRank local;
    MonotonicNs abandons_copies_at = 0;  // when to stop waiting for its process to copy
  };
  struct FailOptions {
    bool notify_hosts = true;
    bool revoked = false;
    bool by_call = false;
  };
  struct Failure {
    absl::Status why;
    bool revoked = false;                  // deliberately: splits continue
    bool by_call = false;                  // by a program's call: others are notified later
    MonotonicNs abandons_copies_at = 0;    // when to stop waiting for processes that copy
    MonotonicNs notify_ports_at = kNever;  // when to notify the remaining ports
    MonotonicNs closing_deadline = 0;      // for closing the links; 0: not started
    WorkDone done = {};                    // by the work that was destroyed
  };

  // Ranks.
  LocalRank* Find(const RankPort* port);
  void LeaveNow(LocalRank& local, const std::string& why, bool by_call);
  // Between operations, ranks with an empty work ring leave.
  bool RemoveDrainedRanks();
  void Depart(LocalRank& local, const std::string& why, bool by_call);
  void Revoke(RankPort* port, const std::string& why, bool by_call);
  void FailSplitsOf(Rank rank, const std::string& why);
  // The rank leaves, and its port waits until its memory is no longer in use.
  void RetainUntilReleased(const LocalRank& local);
  // Returns true if there were any.
  bool ReleaseDepartedRanks();
  // Ends the wait for processes that do not copy into windows of their ranks that have left.
  void AbandonCopiesOfDepartedRanks();
  void ReleaseLaneMemory();

  // Asks the local ranks' processes for access to each other's memory. Returns true if anything
  // moved.
  bool PollKernelRanks();

  // Turns, by state.
  absl::StatusOr<bool> PollForming();
  absl::StatusOr<bool> PollActive();
  bool PollClosing();
  // Publishes a change of the strategy, or the rejection of one. Returns true if there is news.
  bool PublishChange();
  void ReportStaged();
  void ReportDeaths(MonotonicNs now);

  // Transitions.
  void Enter(State state);
  void CountEpoch();
  void Activate();
  // Acts once; and once more if an immediate failure follows one that was delayed (by_call).
  void Fail(const absl::Status& why) { Fail(why, FailOptions()); }
  void Fail(const absl::Status& why, const FailOptions& options);
  void EscalateFailure(const absl::Status& why, bool notify_hosts);
  void NotifyHosts(const absl::Status& why, bool by_call);
  void FailPorts(const absl::Status& named);
  void FinishWithdrawal();
  bool MayClose();
  // `why`, prefixed with the communicator's id.
  absl::Status WithCommunicatorId(const absl::Status& why) const;
  WorkDone done() const;

  // Other hosts.
  bool PollStar();
  void OnMessage(const StarMessage& message);
  absl::Status HandleMessage(const StarMessage& received);
  StarPhase phase() const;
  absl::Status TakeDeparture(HostIndex from, const peer::Departed& departed);
  // All ranks of the host have left. REQUIRES: the membership is known.
  bool AllRanksLeft(HostIndex host) const;

  const CommunicatorEnvironment& env_;
  Waker& waker_;
  const wire::UniqueId unique_id_;
  const std::string tenant_;
  LimitedLog log_;
  const std::shared_ptr<TenantAccount> account_;  // of the first rank; null: not accounted
  const int64_t warn_after_ns_;                   // of the hang watcher
  const std::shared_ptr<TenantCounters> counters_;
  GaugeShare counted_;      // share of the gauge of this state
  Epoch counted_epoch_{0};  // 0: none
  WorkTally tally_;

  std::vector<LocalRank> locals_;   // by LocalIndex once active
  std::vector<Draining> draining_;  // in kActive
  std::vector<Left> left_;
  std::vector<RankPort*> suspended_;
  // While the lanes' memory is to be released: the next part.
  std::optional<CommunicatorLanes::MemoryReleaseCursor> release_;
  Departures departures_;
  std::optional<RateLimits> given_;  // the last ones, before WithinOwnTenant
  Formation formation_;
  Splits splits_;
  Reporter reporter_;

  State state_ = State::kForming;
  uint64_t state_changes_ = 0;
  int64_t lane_cost_ = 0;  // of lanes that were destroyed
  int64_t loop_cost_ = 0;  // of the work that was destroyed
  std::unique_ptr<Forming> forming_;
  std::optional<KernelRanks> kernel_ranks_;  // from the roster on
  std::unique_ptr<ActiveWork> work_;
  std::optional<Failure> failure_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_H_
