// The leader's part of a change of strategy (strategy_change.h draws it): which order comes next,
// and whether all hosts have answered the last one.
//
// OWNER: StrategyChange. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_CHANGE_LEADER_H_
#define MCCS_SERVICE_COMMUNICATOR_CHANGE_LEADER_H_

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
#include "service/communicator/strategy.h"

namespace mccs {

class ChangeLeader {
 public:
  // How long the hosts may take to open the new lanes.
  static constexpr int64_t kPreparePatienceNs = 10 * kNsPerSec;

  // `left_after`: all ranks of this host have left, after this operation: it need not answer, and
  // what it may answer yet does not count. `name_of`: of a host, for texts.
  struct Options {
    int hosts = 1;
    std::function<std::optional<uint64_t>(HostIndex)> left_after;
    std::function<std::string(HostIndex)> name_of;
  };
  explicit ChangeLeader(Options options) : options_(std::move(options)) {}

  // The next change; of several that wait, the last one. kInvalidArgument: it cannot be.
  absl::Status Propose(const Strategy& strategy, const Strategy& in_force);

  // The order that all hosts are to get now, if there is one. REQUIRES: they get it before the next
  // call.
  std::optional<peer::StrategyChange> Next(const Strategy& in_force, MonotonicNs now);
  // What a host answers to the last order; `here`: the last operation that this host has started.
  // kDataLoss: the host was not asked that, has answered already, or cannot have come so far.
  absl::Status Count(HostIndex from, const peer::StrategyChangeAnswer& answer, uint64_t here);

  MonotonicNs NextDeadline() const;
  // The newest epoch that there has been.
  Epoch Newest(const Strategy& in_force) const { return std::max(newest_, in_force.epoch); }

 private:
  // The answers that are legal in each, one of each host; any other is kDataLoss (Fits):
  //
  //   stage        answers               and what comes late
  //   kIdle        none                  prepared, refused of an epoch that was dropped
  //   kPreparing   prepared or refused;  the same
  //                refused behind prepared: its lanes broke
  //   kHolding     started               the same; refused, of lanes that broke before hold came
  //   kSwitching   drained               the same as in kIdle
  enum class Stage : uint8_t { kIdle, kPreparing, kHolding, kSwitching };
  enum class Answered : uint8_t { kNothing, kYes, kRefused };

  static const char* Name(Stage stage);

  peer::StrategyChange Begin(const Strategy& in_force, MonotonicNs now);
  peer::StrategyChange Step(Stage stage);
  bool IsLate(const peer::StrategyChangeAnswer& answer) const;
  bool Fits(HostIndex from, const peer::StrategyChangeAnswer& answer) const;
  bool AllHaveAnswered() const;
  // Why the new lanes cannot come to be; empty as long as they may.
  std::string Hopeless(MonotonicNs now) const;

  const Options options_;
  std::optional<Strategy> proposal_;
  Stage stage_ = Stage::kIdle;
  Epoch newest_{0};                 // that an order was given for
  Epoch in_force_{0};               // when Next was called last
  Epoch dropped_{0};                // the newest of those that were dropped
  bool routes_alone_ = false;       // lanes move, nothing else changes
  std::vector<Answered> answered_;  // by HostIndex, in this stage
  uint64_t highest_ = 0;            // operation that a host has started
  MonotonicNs prepare_by_ = 0;
  std::string refused_because_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_CHANGE_LEADER_H_
