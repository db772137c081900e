#include "service/communicator/schedule/strategy_change.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/communicator/links/peer_link.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {
namespace {

// By StrategyChange::Phase.
constexpr const char* kPhaseNames[] = {"none", "opening",   "opened",   "rejected", "broken",
                                       "held", "committed", "draining", "drained"};

}  // namespace

StrategyChange::StrategyChange(const Options& options, Strategy first)
    : options_(options), strategy_(std::move(first)) {
  if (options_.star != nullptr && !options_.star->leads()) return;
  leader_.emplace(ChangeLeader::Options{
      .hosts = options_.hosts, .left_after = options_.left_after, .name_of = options_.name_of});
}

// ---- Interface to the communicator --------------------------------------------------------------

void StrategyChange::Propose(const Strategy& strategy) {
  if (!leader_.has_value()) return;
  const absl::Status taken = leader_->Propose(strategy, strategy_);
  if (taken.ok()) return;
  rejection_reason_ = std::string(taken.message());
  // An outdated proposal does not affect the status of an earlier one.
  if (strategy.epoch > leader_->NewestEpoch(strategy_)) rejected_epoch_ = strategy.epoch;
  options_.log->Error("communicator ", options_.name, ": rejected the controller's ",
                      rejection_reason_);
}

bool StrategyChange::Allows(uint64_t number) const {
  if (phase_ == Phase::kHeld) return false;
  return phase_ != Phase::kCommitted || number <= boundary_;
}

bool StrategyChange::ReadyToSwitch(uint64_t completed) const {
  return phase_ == Phase::kCommitted && completed == boundary_;
}

absl::Status StrategyChange::SwitchTo() {
  if (phase_ != Phase::kCommitted) {
    return absl::FailedPreconditionError(absl::StrCat("strategy change: cannot switch in state ",
                                                      kPhaseNames[static_cast<size_t>(phase_)]));
  }
  if (opens_lanes()) MCCS_RETURN_IF_ERROR(options_.lanes->Adopt());
  strategy_ = std::move(next_);
  rejection_reason_.clear();
  phase_ = Phase::kDraining;
  options_.log->Info("communicator ", options_.name, ": switched to epoch ",
                     strategy_.epoch.value(), " (strategy ", strategy_.origin,
                     "), starting with operation #", boundary_ + 1);
  return absl::OkStatus();
}

std::string StrategyChange::Describe() const {
  const auto to = [&](const auto&... what) {
    return absl::StrCat("to epoch ", epoch_.value(), ": ", what...);
  };
  switch (phase_) {
    case Phase::kNone:
      return "";
    case Phase::kOpening:
      return to("opening lanes");
    case Phase::kOpened:
      return to("lanes are open, waiting for other hosts");
    case Phase::kRejected:
    case Phase::kBroken:
      return to("cannot open lanes: ", std::string(opened_.message()));
    case Phase::kHeld:
      return to("holding operations, waiting for the leader");
    case Phase::kCommitted:
      return to("starts after operation #", boundary_);
    case Phase::kDraining:
      return to("active, draining the old lanes");
    case Phase::kDrained:
      return to("active, waiting for the leader to close the old lanes");
  }
  return "";
}

// ---- Orders -------------------------------------------------------------------------------------

absl::StatusOr<bool> StrategyChange::OnMessage(const StarMessage& received) {
  const peer::Message& message = received.message;
  if (message.has_strategy_change()) {
    if (leader_.has_value() || received.from != options_.star->leader()) {
      return absl::DataLossError("not allowed from a member");
    }
    if (!HasLeft()) MCCS_RETURN_IF_ERROR(HandleOrder(message.strategy_change()));
    return true;
  }
  if (!message.has_strategy_change_answer()) return false;
  if (!leader_.has_value()) return absl::DataLossError("this host is not the leader");
  MCCS_RETURN_IF_ERROR(leader_->OnAnswer(received.from, message.strategy_change_answer(), here_));
  return true;
}

absl::Status StrategyChange::HandleOrder(const peer::StrategyChange& order) {
  if (!IsLegal(order)) return UnexpectedOrder(order);
  switch (order.step_case()) {
    case peer::StrategyChange::kRoute:
      return Route(order);
    case peer::StrategyChange::kPrepare:
      return Prepare(order);
    case peer::StrategyChange::kMove:
      return Move();
    case peer::StrategyChange::kHold:
      return Hold();
    case peer::StrategyChange::kCommit:
      return Commit(order.commit().after());
    case peer::StrategyChange::kDone:
      if (opens_lanes()) MCCS_RETURN_IF_ERROR(options_.lanes->CloseOld());
      phase_ = Phase::kNone;
      return absl::OkStatus();
    case peer::StrategyChange::kAborted:
      return Drop(order.aborted());
    case peer::StrategyChange::STEP_NOT_SET:
      break;
  }
  return UnexpectedOrder(order);
}

bool StrategyChange::IsLegal(const peer::StrategyChange& order) const {
  const bool first = order.has_route() || order.has_prepare();
  if (!first && Epoch(order.epoch()) != epoch_) return false;
  switch (phase_) {
    case Phase::kNone:
      return first;
    case Phase::kOpening:
    case Phase::kRejected:
      return order.has_aborted();
    case Phase::kOpened:
      return order.has_aborted() ||
             (difference_ == StrategyDifference::kRoutes ? order.has_move() : order.has_hold());
    case Phase::kBroken:
      return order.has_aborted() || order.has_hold();
    case Phase::kHeld:
      return order.has_commit();
    case Phase::kDrained:
      return order.has_done();
    case Phase::kCommitted:
    case Phase::kDraining:
      break;
  }
  return false;
}

absl::Status StrategyChange::UnexpectedOrder(const peer::StrategyChange& order) const {
  return absl::DataLossError(absl::StrCat("unexpected step of a strategy change to epoch ",
                                          order.epoch(), ": the last change is to epoch ",
                                          epoch_.value(), ", in state ",
                                          kPhaseNames[static_cast<size_t>(phase_)]));
}

absl::StatusOr<Strategy> StrategyChange::Proposed(const strategy::Strategy& proposal,
                                                  Epoch epoch) const {
  MCCS_ASSIGN_OR_RETURN(Strategy next, StrategyFromProto(proposal, options_.hosts));
  const Epoch newest = std::max(epoch_, strategy_.epoch);
  if (next.epoch == epoch && epoch > newest) return next;
  return absl::DataLossError(
      absl::StrCat("invalid epoch: ", epoch.value(), " in the message, ", next.epoch.value(),
                   " in its strategy; expected the same epoch in both, above ", newest.value()));
}

absl::Status StrategyChange::Route(const peer::StrategyChange& order) {
  MCCS_ASSIGN_OR_RETURN(next_, Proposed(order.route(), Epoch(order.epoch())));
  difference_ = Compare(strategy_, next_);
  if (difference_ != StrategyDifference::kRoutes) {
    return absl::DataLossError("expected a strategy that differs only in its routes");
  }
  epoch_ = next_.epoch;
  opened_ = options_.lanes->current().CheckAddresses(next_);
  phase_ = Phase::kOpening;
  return absl::OkStatus();
}

absl::Status StrategyChange::Move() {
  strategy_ = std::move(next_);
  rejection_reason_.clear();
  phase_ = Phase::kNone;
  options_.lanes->MoveTo(strategy_);
  return absl::OkStatus();
}

absl::Status StrategyChange::Prepare(const peer::StrategyChange& order) {
  MCCS_ASSIGN_OR_RETURN(next_, Proposed(order.prepare(), Epoch(order.epoch())));
  epoch_ = next_.epoch;
  difference_ = Compare(strategy_, next_) == StrategyDifference::kAlgorithms
                    ? StrategyDifference::kAlgorithms
                    : StrategyDifference::kLanes;
  opened_ = options_.layout == nullptr ? absl::OkStatus() : CheckHomes(next_, *options_.layout);
  if (opened_.ok() && opens_lanes()) opened_ = options_.lanes->OpenNext(next_);
  phase_ = Phase::kOpening;
  return absl::OkStatus();
}

absl::Status StrategyChange::Hold() {
  phase_ = Phase::kHeld;
  started_ = here_;
  peer::StrategyChangeAnswer answer;
  answer.set_started(started_);
  return Answer(std::move(answer));
}

absl::Status StrategyChange::Commit(uint64_t after) {
  MCCS_RETURN_IF_ERROR(CheckBoundary(after, started_));
  boundary_ = after;
  phase_ = Phase::kCommitted;
  return absl::OkStatus();
}

absl::Status StrategyChange::Drop(const std::string& why) {
  rejection_reason_ = std::string(StatusFromPeer(0, why).message());
  rejected_epoch_ = epoch_;
  phase_ = Phase::kNone;
  options_.log->Error("communicator ", options_.name, ": the change to epoch ", epoch_.value(),
                      " was rejected: ", rejection_reason_);
  // There are no next lanes if they could not be opened.
  return options_.lanes->has_next() ? options_.lanes->DropNext() : absl::OkStatus();
}

// ---- Turns of the engine ------------------------------------------------------------------------

absl::StatusOr<bool> StrategyChange::Poll(uint64_t started, MonotonicNs now) {
  here_ = started;
  MCCS_ASSIGN_OR_RETURN(const bool stepped, PollPhase());
  if (!leader_.has_value()) return stepped;
  MCCS_ASSIGN_OR_RETURN(const bool ordered, PollLeader(now));
  return stepped || ordered;
}

absl::StatusOr<bool> StrategyChange::PollPhase() {
  peer::StrategyChangeAnswer answer;
  switch (phase_) {
    case Phase::kOpening:
      if (opened_.ok() && opens_lanes()) {
        opened_ = options_.lanes->next_status();
        if (opened_.ok() && !options_.lanes->next_ready()) return false;
      }
      if (opened_.ok()) {
        answer.set_prepared(true);
      } else {
        answer.set_rejected(std::string(opened_.message()));
      }
      phase_ = opened_.ok() ? Phase::kOpened : Phase::kRejected;
      break;
    case Phase::kOpened:  // The new lanes may still break while other hosts open theirs.
      if (!opens_lanes() || options_.lanes->next_status().ok()) return false;
      opened_ = options_.lanes->next_status();
      answer.set_rejected(std::string(opened_.message()));
      phase_ = Phase::kBroken;
      break;
    case Phase::kDraining:
      if (opens_lanes() && !options_.lanes->OldDrained()) return false;
      answer.set_drained(true);
      phase_ = Phase::kDrained;
      break;
    default:
      return false;
  }
  MCCS_RETURN_IF_ERROR(Answer(std::move(answer)));
  return true;
}

// Sends it to the leader, which may be this host.
absl::Status StrategyChange::Answer(peer::StrategyChangeAnswer answer) {
  answer.set_epoch(epoch_.value());
  if (leader_.has_value()) return leader_->OnAnswer(options_.self, answer, here_);
  peer::Message message;
  *message.mutable_strategy_change_answer() = std::move(answer);
  options_.star->SendToLeader(message);
  return absl::OkStatus();
}

absl::StatusOr<bool> StrategyChange::PollLeader(MonotonicNs now) {
  std::optional<peer::StrategyChange> order = leader_->Next(strategy_, now);
  if (!order.has_value()) return false;
  if (options_.star != nullptr) {
    peer::Message message;
    *message.mutable_strategy_change() = *order;
    options_.star->Broadcast(message);
  }
  if (!HasLeft()) MCCS_RETURN_IF_ERROR(HandleOrder(*order));
  return true;
}

MonotonicNs StrategyChange::NextDeadline() const {
  return leader_.has_value() ? leader_->NextDeadline() : kNever;
}

}  // namespace mccs
