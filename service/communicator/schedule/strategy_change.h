// Changes the strategy of a running communicator.
//
// If only routes differ (ports, addresses), each lane moves by its two ends (LaneSet::MoveTo),
// after every host has confirmed that it has the addresses. Operations are not affected.
//
//   leader                              every host, the leader included
//   Route{strategy}     ─────────────►  checks that it has the addresses
//                       ◄─────────────  Prepared{epoch}, or the error
//   Move{epoch}         ─────────────►  its lanes move, one by one
//
// All other changes happen between the same two operations on every host. Operations continue while
// the new lanes are opened. No operation starts between the leader's Hold and its Commit, which is
// one round trip over the star. If only the choice of algorithms differs, the lanes stay.
//
//   Prepare{strategy}   ─────────────►  opens the lanes of the new epoch beside those in use
//                       ◄─────────────  Prepared{epoch}, or the error
//   Hold{epoch}         ─────────────►  (boundary.h)
//                       ◄─────────────  Started{epoch, operation}
//   Commit{epoch, after}  ───────────►  up to it, operations use the old strategy; after it, the
//                                       new one
//                       ◄─────────────  Drained{epoch}: all data of the old lanes has arrived
//   Done{epoch}         ─────────────►  closes the old lanes
//
// If a host fails, or after ChangeLeader::kPrepareTimeoutNs, before Move or Hold: Aborted{epoch,
// why}, and the old strategy stays. The numbers are those of collectives; message lanes belong to
// no epoch. Calls posted during the change stay in the work rings and run under the strategy of
// their number.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_STRATEGY_CHANGE_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_STRATEGY_CHANGE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "service/communicator/lanes/communicator_lanes.h"
#include "service/communicator/links/star.h"
#include "service/communicator/schedule/change_leader.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {

class StrategyChange {
 public:
  struct Options {
    Star* star = nullptr;  // may be null if there is one host
    int hosts = 1;
    HostIndex self;
    const Layout* layout = nullptr;  // null: home ranks are not checked
    CommunicatorLanes* lanes = nullptr;
    Log* log = nullptr;
    std::string name;  // of the communicator, for the log
    std::function<std::string(HostIndex)> name_of;
    LeftAfter left_after;
  };
  // LIFETIME: what `options` points to outlives this.
  StrategyChange(const Options& options, Strategy first);

  // A proposal of the controller. Only the leader acts on it. While a change is in progress, only
  // the newest proposal is queued. An invalid one is rejected: see rejection_reason().
  void Propose(const Strategy& strategy);

  // The current strategy.
  const Strategy& strategy() const { return strategy_; }
  // Why the last proposal was not applied; empty if it was.
  const std::string& rejection_reason() const { return rejection_reason_; }
  // The newest proposed epoch that was rejected and will never be used.
  Epoch rejected_epoch() const { return rejected_epoch_; }

  // Progress of a change, for people; empty: none is in progress.
  std::string Describe() const;

  // Whether operation `number`, the next one of this host, may start.
  bool Allows(uint64_t number) const;
  // Whether to switch now, after operation `completed` and with none running.
  bool ReadyToSwitch(uint64_t completed) const;
  // Makes the new strategy and its lanes current. kFailedPrecondition: not ReadyToSwitch, or no
  // lanes.
  absl::Status SwitchTo();

  // Returns true if the message was meant for this. kDataLoss: invalid message.
  absl::StatusOr<bool> OnMessage(const StarMessage& received);
  // `started`: the last operation started on this host. Returns true if anything moved. kDataLoss:
  // a peer broke the protocol.
  absl::StatusOr<bool> Poll(uint64_t started, MonotonicNs now);
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  // The steps that the leader may send in each phase; any other is kDataLoss (IsLegal). Unlabeled
  // arrows are transitions without a message.
  //
  //   kNone ─route, prepare─► kOpening ──► kOpened ──hold──► kHeld ──commit──► kCommitted
  //                              │           │                ▲                    │
  //                              ▼           └──► kBroken ─hold                    ▼
  //                           kRejected            kNone ◄─done─ kDrained ◄── kDraining
  //
  //   dropped: from kOpening, kOpened, kRejected and kBroken to kNone; move: from kOpened to kNone.
  enum class Phase : uint8_t {
    kNone,
    kOpening,    // opens the new lanes or checks the routes; operations continue
    kOpened,     // the leader has been notified
    kRejected,   // cannot open them; notified the leader, which can only drop the change
    kBroken,     // they failed after Prepared was sent: the leader may have sent Hold
    kHeld,       // starts nothing; has sent Started
    kCommitted,  // runs up to the boundary
    kDraining,   // has switched; old lanes may still carry data
    kDrained,    // has sent Drained
  };

  absl::Status HandleOrder(const peer::StrategyChange& order);
  bool IsLegal(const peer::StrategyChange& order) const;
  absl::Status UnexpectedOrder(const peer::StrategyChange& order) const;
  // The strategy in a Route or Prepare order.
  absl::StatusOr<Strategy> Proposed(const strategy::Strategy& proposal, Epoch epoch) const;
  absl::Status Prepare(const peer::StrategyChange& order);
  absl::Status Route(const peer::StrategyChange& order);
  absl::Status Move();
  absl::Status Hold();
  absl::Status Commit(uint64_t after);
  absl::Status Drop(const std::string& why);
  absl::Status Answer(peer::StrategyChangeAnswer answer);
  absl::StatusOr<bool> PollPhase();
  absl::StatusOr<bool> PollLeader(MonotonicNs now);
  // All ranks of this host have left, so it takes no further part.
  bool HasLeft() const { return options_.left_after(options_.self).has_value(); }
  bool opens_lanes() const { return difference_ == StrategyDifference::kLanes; }

  const Options options_;
  std::optional<ChangeLeader> leader_;  // if this host leads
  Strategy strategy_;
  std::string rejection_reason_;
  Epoch rejected_epoch_{0};

  // Of the change in progress:
  Phase phase_ = Phase::kNone;
  Epoch epoch_{0};  // highest epoch of any order
  Strategy next_;
  // kRoutes: no boundary. kLanes: opens lanes beside those in use.
  StrategyDifference difference_ = StrategyDifference::kLanes;
  absl::Status opened_;
  uint64_t here_ = 0;      // last operation started on this host
  uint64_t started_ = 0;   // likewise, as sent to the leader
  uint64_t boundary_ = 0;  // last operation under the old strategy
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_STRATEGY_CHANGE_H_
