// How a running communicator goes over to another strategy.
//
// Other routes alone (ports, addresses) move the lanes, each by its two ends (LaneSet::MoveTo),
// once every host has said that the addresses are its own. Operations do not notice.
//
//   leader                              every host, the leader included
//   Route{strategy}     ─────────────►  looks whether it has the addresses
//                       ◄─────────────  Prepared{epoch}, or why not
//   Move{epoch}         ─────────────►  its lanes go over, one by one
//
// All else changes between two operations, the same ones on every host. Operations go on while the
// new lanes are opened; nothing more is started from the leader's Hold to its Commit, which is a
// round trip over the star. Where algorithms alone are chosen otherwise, the lanes stay as they
// are.
//
//   Prepare{strategy}   ─────────────►  opens the lanes of the new epoch beside those in use
//                       ◄─────────────  Prepared{epoch}, or why not
//   Hold{epoch}         ─────────────►  starts nothing more
//                       ◄─────────────  Started{epoch, the last operation that it has started}
//   Commit{epoch, after}  ───────────►  up to that operation, the highest of all, the old strategy,
//                                       also for who has not come so far; behind it the new one
//                       ◄─────────────  Drained{epoch}: what the old lanes carried has arrived
//   Done{epoch}         ─────────────►  closes the old lanes
//
// A host that cannot, or ChangeLeader::kPreparePatienceNs, before Move or Hold: Dropped{epoch,
// why}, and all goes on as it was. The numbers are the collectives' own; lanes for messages belong
// to no epoch. What arrives during the agreement stays in the ranks' rings, where it is posted, and
// is taken up under whichever strategy its number falls.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_STRATEGY_CHANGE_H_
#define MCCS_SERVICE_COMMUNICATOR_STRATEGY_CHANGE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "service/communicator/change_leader.h"
#include "service/communicator/communicator_lanes.h"
#include "service/communicator/star.h"
#include "service/communicator/strategy.h"

namespace mccs {

class StrategyChange {
 public:
  struct Options {
    Star* star = nullptr;  // may be null where there is one host
    int hosts = 1;
    HostIndex self;
    CommunicatorLanes* lanes = nullptr;
    Log* log = nullptr;
    std::string name;  // of the communicator, for the log
    std::function<std::string(HostIndex)> name_of;
    // As ChangeLeader's.
    std::function<std::optional<uint64_t>(HostIndex)> left_after;
  };
  // LIFETIME: what `options` points to outlives this.
  StrategyChange(const Options& options, Strategy first);

  // What the controller would like. Only the leader acts on it; of several that come while a change
  // is under way, the last one is next. One that cannot be is refused: see trouble().
  void Propose(const Strategy& strategy);

  // The strategy in force.
  const Strategy& strategy() const { return strategy_; }
  // Why the last proposal did not come into force; empty where it did.
  const std::string& trouble() const { return trouble_; }
  // The newest epoch that was proposed, was none before, and will never be in force.
  Epoch refused() const { return refused_; }

  // How far a change is, for people; empty: none is under way.
  std::string Describe() const;

  // May operation `number`, the next one of this host, be started?
  bool Allows(uint64_t number) const;
  // After operation `completed`, with none running: is it time to go over?
  bool Due(uint64_t completed) const;
  // The new strategy is in force, its lanes are the current ones. kFailedPrecondition: it is not
  // Due, or has no lanes.
  absl::Status GoOver();

  // True when the message was meant for this. kDataLoss: it makes no sense.
  absl::StatusOr<bool> Hear(const StarMessage& heard);
  // `started`: the last operation that this host has started. True when anything moved. kDataLoss:
  // a peer that broke the protocol.
  absl::StatusOr<bool> Poll(uint64_t started, MonotonicNs now);
  // When Poll has something to do though nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  // The orders of the leader that are legal in each; any other is kDataLoss (IsLegal). Without an
  // arrow's name the phase changes by itself.
  //
  //   kNone ─route, prepare─► kOpening ──► kOpened ─hold─► kHeld ──► kAnswered ─commit─► kCommitted
  //                              │           │               ▲                              │
  //                              ▼           └──► kBroken ───┘ hold                         ▼
  //                           kRefused                           kNone ◄─done─ kDrained ◄── kDraining
  //
  //   dropped: from kOpening, kOpened, kRefused and kBroken to kNone; move: from kOpened to kNone.
  enum class Phase : uint8_t {
    kNone,
    kOpening,    // the new lanes, or looks at their routes; operations go on
    kOpened,     // the leader knows
    kRefused,    // they cannot be opened, and the leader knows: it can only drop the change
    kBroken,     // likewise, after it was told that they are open: it may have asked to hold
    kHeld,       // starts nothing
    kAnswered,   // likewise, and the leader knows how far it has come
    kCommitted,  // goes on up to the boundary
    kDraining,   // has gone over, as far as this host goes
    kDrained,    // the leader knows
  };

  static const char* Name(Phase phase);
  absl::Status Obey(const peer::StrategyChange& order);
  bool IsLegal(const peer::StrategyChange& order) const;
  absl::Status OutOfTurn(const peer::StrategyChange& order) const;
  // The strategy that a first order proposes.
  absl::StatusOr<Strategy> Proposed(const strategy::Strategy& proposal, Epoch epoch) const;
  absl::Status Prepare(const peer::StrategyChange& order);
  absl::Status Route(const peer::StrategyChange& order);
  absl::Status Move();
  absl::Status Commit(uint64_t after);
  absl::Status Drop(const std::string& why);
  absl::Status Answer(peer::StrategyChangeAnswer answer);
  absl::StatusOr<bool> PollPhase(uint64_t started);
  absl::StatusOr<bool> PollLeader(MonotonicNs now);
  // All ranks of this host: it takes no part any more.
  bool HasLeft() const { return options_.left_after(options_.self).has_value(); }

  const Options options_;
  std::optional<ChangeLeader> leader_;  // where this host leads
  Strategy strategy_;
  std::string trouble_;
  Epoch refused_{0};

  // Of the change that is under way:
  Phase phase_ = Phase::kNone;
  Epoch epoch_{0};  // the newest that there was an order for
  Strategy next_;
  bool routes_alone_ = false;  // no lanes are opened beside those in use
  bool keeps_lanes_ = false;   // likewise; but it has a boundary
  absl::Status opened_;
  uint64_t here_ = 0;      // the last operation that this host has started
  uint64_t started_ = 0;   // as the leader knows
  uint64_t boundary_ = 0;  // the last operation under the old strategy
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_STRATEGY_CHANGE_H_
