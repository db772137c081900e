// The leader's part of a strategy change (see the drawing in strategy_change.h): chooses the next
// order and checks whether all hosts have answered the last one.
//
// OWNER: StrategyChange. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_CHANGE_LEADER_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_CHANGE_LEADER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/ids.h"
#include "proto/peer.pb.h"
#include "service/communicator/schedule/boundary.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {

class ChangeLeader {
 public:
  // Time limit for all hosts to open the new lanes.
  static constexpr int64_t kPrepareTimeoutNs = 10 * kNsPerSec;

  // A host that has left need not answer, and later answers from it are ignored. `name_of`: host
  // name for messages.
  struct Options {
    int hosts = 1;
    LeftAfter left_after;
    std::function<std::string(HostIndex)> name_of;
  };
  explicit ChangeLeader(const Options& options)
      : options_(options), vote_(options.hosts, options.left_after) {}

  // Queues the next change; replaces one that is still waiting. kInvalidArgument: not a valid
  // change.
  absl::Status Propose(const Strategy& strategy, const Strategy& current);

  // The order to send to all hosts now, if any.
  // REQUIRES: the caller sends it before the next call.
  std::optional<peer::StrategyChange> Next(const Strategy& current, MonotonicNs now);
  // Handles a host's answer to the last order. `here`: the last operation that this host has
  // started. kDataLoss: unexpected or duplicate answer, or an implausible operation number.
  absl::Status OnAnswer(HostIndex from, const peer::StrategyChangeAnswer& answer, uint64_t here);

  MonotonicNs NextDeadline() const;
  // The newest epoch ever used.
  Epoch NewestEpoch(const Strategy& current) const { return std::max(newest_, current.epoch); }

 private:
  // The legal answers in each stage, one per host; any other is kDataLoss (IsExpected):
  //
  //   stage        answers               late answers that are ignored
  //   kIdle        none                  prepared, rejected, for a dropped epoch
  //   kPreparing   prepared or rejected;  the same
  //                rejected after prepared: its lanes broke
  //   kHolding     started               the same; rejected, if lanes broke before hold arrived
  //   kSwitching   drained               the same as in kIdle
  enum class Stage : uint8_t { kIdle, kPreparing, kHolding, kSwitching };
  enum class Answered : uint8_t { kNothing, kYes, kRejected };

  peer::StrategyChange Begin(const Strategy& current, MonotonicNs now);
  peer::StrategyChange Step(Stage stage);
  bool IsLate(const peer::StrategyChangeAnswer& answer) const;
  bool IsExpected(HostIndex from, const peer::StrategyChangeAnswer& answer) const;
  // In kPreparing and kSwitching.
  bool AllHaveAnswered() const;
  // Why the new lanes cannot be opened; empty while they still can.
  std::string PrepareError(MonotonicNs now) const;

  const Options options_;
  std::optional<Strategy> proposal_;
  Stage stage_ = Stage::kIdle;
  Epoch newest_{0};                                             // highest epoch of any order sent
  Epoch current_epoch_{0};                                      // as passed to the last Next()
  Epoch dropped_{0};                                            // highest epoch that was dropped
  StrategyDifference difference_ = StrategyDifference::kLanes;  // of this change
  std::vector<Answered> answered_;  // by HostIndex, in kPreparing and kSwitching
  BoundaryVote vote_;               // in kHolding
  MonotonicNs prepare_by_ = 0;
  std::string rejected_because_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_CHANGE_LEADER_H_
