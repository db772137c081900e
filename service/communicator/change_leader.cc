#include "service/communicator/change_leader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "service/communicator/peer_link.h"
#include "service/communicator/strategy_proto.h"

namespace mccs {

absl::Status ChangeLeader::Propose(const Strategy& strategy, const Strategy& in_force) {
  MCCS_RETURN_IF_ERROR(ValidateStrategy(strategy, options_.hosts));
  const Epoch newest = Newest(in_force);
  if (strategy.epoch <= newest) {
    return absl::InvalidArgumentError(absl::StrCat("strategy has epoch ", strategy.epoch.value(),
                                                   ", and ", newest.value(),
                                                   " has been here already"));
  }
  proposal_ = strategy;
  return absl::OkStatus();
}

std::optional<peer::StrategyChange> ChangeLeader::Next(const Strategy& in_force, MonotonicNs now) {
  if (stage_ == Stage::kIdle) {
    if (!proposal_.has_value()) return std::nullopt;
    return Begin(in_force, now);
  }
  if (stage_ == Stage::kPreparing) {
    if (const std::string why = Hopeless(now); !why.empty()) {
      peer::StrategyChange order = Step(Stage::kIdle);
      order.set_dropped(why);
      return order;
    }
  }
  if (!AllHaveAnswered()) return std::nullopt;
  switch (stage_) {
    case Stage::kPreparing: {
      peer::StrategyChange order = Step(routes_alone_ ? Stage::kIdle : Stage::kHolding);
      if (routes_alone_) {
        order.set_move(true);
      } else {
        order.set_hold(true);
      }
      return order;
    }
    case Stage::kHolding: {
      // What somebody who left has taken part in belongs to the old strategy, too.
      for (int h = 0; h < options_.hosts; ++h) {
        highest_ = std::max(highest_, options_.left_after(HostIndex(h)).value_or(0));
      }
      peer::StrategyChange order = Step(Stage::kSwitching);
      order.mutable_commit()->set_after(highest_);
      return order;
    }
    case Stage::kSwitching: {
      peer::StrategyChange order = Step(Stage::kIdle);
      order.set_done(true);
      return order;
    }
    case Stage::kIdle:
      break;
  }
  return std::nullopt;
}

peer::StrategyChange ChangeLeader::Begin(const Strategy& in_force, MonotonicNs now) {
  const Strategy strategy = *std::exchange(proposal_, std::nullopt);
  routes_alone_ = DifferInRoutesAlone(in_force, strategy);
  newest_ = strategy.epoch;
  highest_ = 0;
  refused_because_.clear();
  prepare_by_ = now + kPreparePatienceNs;
  peer::StrategyChange order = Step(Stage::kPreparing);
  ToProto(strategy, routes_alone_ ? order.mutable_route() : order.mutable_prepare());
  return order;
}

peer::StrategyChange ChangeLeader::Step(Stage stage) {
  stage_ = stage;
  answered_.assign(static_cast<size_t>(options_.hosts), false);
  peer::StrategyChange order;
  order.set_epoch(newest_.value());
  return order;
}

absl::Status ChangeLeader::Count(HostIndex from, const peer::StrategyChangeAnswer& answer) {
  if (options_.left_after(from).has_value()) return absl::OkStatus();
  const Epoch epoch(answer.epoch());
  const bool opens = answer.has_prepared() || answer.has_refused();
  // Too late: the change was dropped.
  if (opens && (epoch < newest_ || (epoch == newest_ && stage_ == Stage::kIdle))) {
    return absl::OkStatus();
  }
  // It broke in the moment in which all had said that theirs are open.
  if (answer.has_refused() && epoch == newest_ && stage_ != Stage::kPreparing) {
    return absl::OkStatus();
  }
  const bool fits = epoch == newest_ && ((stage_ == Stage::kPreparing && opens) ||
                                         (stage_ == Stage::kHolding && answer.has_started()) ||
                                         (stage_ == Stage::kSwitching && answer.has_drained()));
  if (!fits)
    return absl::DataLossError("an answer about a change of strategy that nobody asked for");
  answered_[static_cast<size_t>(from.value())] = true;
  if (answer.has_refused()) {
    refused_because_ = absl::StrCat("host ", options_.name_of(from), ": ",
                                    std::string(StatusFromPeer(0, answer.refused()).message()));
  }
  if (answer.has_started()) highest_ = std::max(highest_, answer.started());
  return absl::OkStatus();
}

bool ChangeLeader::AllHaveAnswered() const {
  for (int h = 0; h < options_.hosts; ++h) {
    if (!answered_[static_cast<size_t>(h)] && !options_.left_after(HostIndex(h))) return false;
  }
  return true;
}

std::string ChangeLeader::Hopeless(MonotonicNs now) const {
  if (!refused_because_.empty()) return refused_because_;
  std::vector<std::string> missing;
  for (int h = 0; h < options_.hosts; ++h) {
    if (options_.left_after(HostIndex(h))) {
      return absl::StrCat("all ranks of host ", options_.name_of(HostIndex(h)), " left");
    }
    if (now >= prepare_by_ && !answered_[static_cast<size_t>(h)]) {
      missing.push_back(options_.name_of(HostIndex(h)));
    }
  }
  if (missing.empty()) return "";
  return absl::StrCat("its lanes are not open after ", kPreparePatienceNs / kNsPerSec, " s on ",
                      absl::StrJoin(missing, ", "));
}

MonotonicNs ChangeLeader::NextDeadline() const {
  return stage_ == Stage::kPreparing ? prepare_by_ : std::numeric_limits<MonotonicNs>::max();
}

}  // namespace mccs
