#include "service/communicator/schedule/change_leader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "service/communicator/links/peer_link.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {
namespace {

constexpr const char* kStageNames[] = {"none", "preparing", "holding", "switching"};

}  // namespace

absl::Status ChangeLeader::Propose(const Strategy& strategy, const Strategy& current) {
  MCCS_RETURN_IF_ERROR(ValidateStrategy(strategy, options_.hosts));
  const Epoch newest = NewestEpoch(current);
  if (strategy.epoch <= newest) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: epoch ", strategy.epoch.value(),
                                                   " is too low: epoch ", newest.value(),
                                                   " was used already"));
  }
  proposal_ = strategy;
  return absl::OkStatus();
}

std::optional<peer::StrategyChange> ChangeLeader::Next(const Strategy& current, MonotonicNs now) {
  current_epoch_ = current.epoch;
  if (stage_ == Stage::kIdle) {
    if (!proposal_.has_value()) return std::nullopt;
    return Begin(current, now);
  }
  if (stage_ == Stage::kPreparing) {
    if (const std::string why = PrepareError(now); !why.empty()) {
      peer::StrategyChange order = Step(Stage::kIdle);
      order.set_aborted(why);
      dropped_ = newest_;
      return order;
    }
  }
  if (stage_ == Stage::kHolding) {
    const std::optional<uint64_t> boundary = vote_.Agreed();
    if (!boundary.has_value()) return std::nullopt;
    peer::StrategyChange order = Step(Stage::kSwitching);
    order.mutable_commit()->set_after(*boundary);
    return order;
  }
  if (!AllHaveAnswered()) return std::nullopt;
  if (stage_ == Stage::kSwitching) {
    peer::StrategyChange order = Step(Stage::kIdle);
    order.set_done(true);
    return order;
  }
  if (difference_ == StrategyDifference::kRoutes) {
    peer::StrategyChange order = Step(Stage::kIdle);
    order.set_move(true);
    return order;
  }
  vote_.Begin();
  peer::StrategyChange order = Step(Stage::kHolding);
  order.set_hold(true);
  return order;
}

peer::StrategyChange ChangeLeader::Begin(const Strategy& current, MonotonicNs now) {
  const Strategy strategy = *std::exchange(proposal_, std::nullopt);
  difference_ = Compare(current, strategy);
  newest_ = strategy.epoch;
  rejected_because_.clear();
  prepare_by_ = now + kPrepareTimeoutNs;
  peer::StrategyChange order = Step(Stage::kPreparing);
  const bool routes = difference_ == StrategyDifference::kRoutes;
  ToProto(strategy, routes ? order.mutable_route() : order.mutable_prepare());
  return order;
}

peer::StrategyChange ChangeLeader::Step(Stage stage) {
  stage_ = stage;
  answered_.assign(static_cast<size_t>(options_.hosts), Answered::kNothing);
  peer::StrategyChange order;
  order.set_epoch(newest_.value());
  return order;
}

absl::Status ChangeLeader::OnAnswer(HostIndex from, const peer::StrategyChangeAnswer& answer,
                                    uint64_t here) {
  if (vote_.HasLeft(from) || IsLate(answer)) return absl::OkStatus();
  if (!IsExpected(from, answer)) {
    return absl::DataLossError(absl::StrCat("unexpected StrategyChangeAnswer for epoch ",
                                            answer.epoch(), ": the last change is to epoch ",
                                            newest_.value(), ", in state ",
                                            kStageNames[static_cast<size_t>(stage_)]));
  }
  if (stage_ == Stage::kHolding) return vote_.OnStarted(from, answer.started(), here);
  answered_[static_cast<size_t>(from.value())] =
      answer.has_rejected() ? Answered::kRejected : Answered::kYes;
  if (answer.has_rejected()) {
    rejected_because_ = absl::StrCat("host ", options_.name_of(from), ": ",
                                     std::string(StatusFromPeer(0, answer.rejected()).message()));
  }
  return absl::OkStatus();
}

// The host sent it before it knew the next step of the change.
bool ChangeLeader::IsLate(const peer::StrategyChangeAnswer& answer) const {
  const Epoch epoch(answer.epoch());
  if (!answer.has_prepared() && !answer.has_rejected()) return false;
  if (epoch > current_epoch_ && epoch <= dropped_) return true;
  return answer.has_rejected() && epoch == newest_ && stage_ == Stage::kHolding;
}

bool ChangeLeader::IsExpected(HostIndex from, const peer::StrategyChangeAnswer& answer) const {
  if (stage_ == Stage::kIdle || Epoch(answer.epoch()) != newest_) return false;
  const Answered before = answered_[static_cast<size_t>(from.value())];
  const bool first = before == Answered::kNothing;
  switch (stage_) {
    case Stage::kIdle:
      break;
    case Stage::kPreparing:
      if (answer.has_rejected()) {
        return first || (before == Answered::kYes && difference_ != StrategyDifference::kRoutes);
      }
      return first && answer.has_prepared();
    case Stage::kHolding:
      return answer.has_started();
    case Stage::kSwitching:
      return first && answer.has_drained();
  }
  return false;
}

bool ChangeLeader::AllHaveAnswered() const {
  for (int h = 0; h < options_.hosts; ++h) {
    const bool answered = answered_[static_cast<size_t>(h)] != Answered::kNothing;
    if (!answered && !vote_.HasLeft(HostIndex(h))) return false;
  }
  return true;
}

std::string ChangeLeader::PrepareError(MonotonicNs now) const {
  if (!rejected_because_.empty()) return rejected_because_;
  std::vector<std::string> missing;
  for (int h = 0; h < options_.hosts; ++h) {
    if (vote_.HasLeft(HostIndex(h))) {
      return absl::StrCat("all ranks of host ", options_.name_of(HostIndex(h)), " have left");
    }
    if (now >= prepare_by_ && answered_[static_cast<size_t>(h)] == Answered::kNothing) {
      missing.push_back(options_.name_of(HostIndex(h)));
    }
  }
  if (missing.empty()) return "";
  return absl::StrCat("lanes are not open after ", kPrepareTimeoutNs / kNsPerSec, " s on ",
                      absl::StrJoin(missing, ", "));
}

MonotonicNs ChangeLeader::NextDeadline() const {
  return stage_ == Stage::kPreparing ? prepare_by_ : kNever;
}

}  // namespace mccs
