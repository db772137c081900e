#include "service/communicator/strategy_change.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/communicator/peer_link.h"
#include "service/communicator/strategy_proto.h"

namespace mccs {
namespace {

absl::Status OutOfTurn(const char* what) {
  return absl::DataLossError(absl::StrCat("a change of strategy out of turn: ", what));
}

}  // namespace

StrategyChange::StrategyChange(const Options& options, Strategy first)
    : options_(options), strategy_(std::move(first)) {
  if (options_.star != nullptr && !options_.star->leads()) return;
  leader_.emplace(ChangeLeader::Options{
      .hosts = options_.hosts, .left_after = options_.left_after, .name_of = options_.name_of});
}

// ---- What the communicator asks -----------------------------------------------------------------

void StrategyChange::Propose(const Strategy& strategy) {
  if (!leader_.has_value()) return;
  const absl::Status taken = leader_->Propose(strategy, strategy_);
  if (taken.ok()) return;
  trouble_ = std::string(taken.message());
  // What is too late says nothing of what came before it.
  if (strategy.epoch > leader_->Newest(strategy_)) refused_ = strategy.epoch;
  options_.log->Error("communicator ", options_.name, ": the controller's ", trouble_);
}

bool StrategyChange::Allows(uint64_t number) const {
  if (phase_ == Phase::kHeld || phase_ == Phase::kAnswered) return false;
  return phase_ != Phase::kCommitted || number <= boundary_;
}

bool StrategyChange::Due(uint64_t completed) const {
  return phase_ == Phase::kCommitted && completed == boundary_;
}

void StrategyChange::GoOver() {
  if (!keeps_lanes_) options_.lanes->Adopt();
  strategy_ = std::move(next_);
  trouble_.clear();
  phase_ = Phase::kDraining;
  options_.log->Info("communicator ", options_.name, ": epoch ", strategy_.epoch.value(),
                     " from operation #", boundary_ + 1, " on, strategy ", strategy_.origin);
}

std::string StrategyChange::Describe() const {
  const auto to = [&](const auto&... what) {
    return absl::StrCat("to epoch ", epoch_.value(), ": ", what...);
  };
  switch (phase_) {
    case Phase::kNone:
      return "";
    case Phase::kOpening:
      return to("opens its lanes");
    case Phase::kOpened:
      return opened_.ok() ? to("its lanes are open, waits for other hosts")
                          : to("cannot open its lanes: ", std::string(opened_.message()));
    case Phase::kHeld:
    case Phase::kAnswered:
      return to("starts nothing more, waits for the leader's word");
    case Phase::kCommitted:
      return to("begins after operation #", boundary_);
    case Phase::kDraining:
      return to("in force, the old lanes still carry something");
    case Phase::kDrained:
      return to("in force, waits for the leader's word to close the old lanes");
  }
  return "";
}

// ---- Orders -------------------------------------------------------------------------------------

absl::StatusOr<bool> StrategyChange::Hear(const StarMessage& heard) {
  const peer::Message& message = heard.message;
  if (message.has_strategy_change()) {
    if (leader_.has_value() || heard.from != options_.star->leader()) {
      return OutOfTurn("not from the leader");
    }
    if (!HasLeft()) MCCS_RETURN_IF_ERROR(Obey(message.strategy_change()));
    return true;
  }
  if (!message.has_strategy_change_answer()) return false;
  if (!leader_.has_value()) return OutOfTurn("not to the leader");
  MCCS_RETURN_IF_ERROR(leader_->Count(heard.from, message.strategy_change_answer()));
  return true;
}

absl::Status StrategyChange::Obey(const peer::StrategyChange& order) {
  if (order.has_route()) return Route(order);
  if (order.has_prepare()) return Prepare(order);
  if (phase_ == Phase::kNone || Epoch(order.epoch()) != epoch_) return OutOfTurn("another epoch");
  if (order.has_move()) return Move();
  if (order.has_hold()) {
    if (phase_ != Phase::kOpened || routes_alone_) return OutOfTurn("hold");
    phase_ = Phase::kHeld;
  } else if (order.has_commit()) {
    boundary_ = order.commit().after();
    if (phase_ != Phase::kAnswered || boundary_ < started_) return OutOfTurn("commit");
    phase_ = Phase::kCommitted;
  } else if (order.has_done()) {
    if (phase_ != Phase::kDrained) return OutOfTurn("done");
    if (!keeps_lanes_) options_.lanes->CloseOld();
    phase_ = Phase::kNone;
  } else if (order.has_dropped()) {
    if (phase_ > Phase::kOpened) return OutOfTurn("dropped");
    trouble_ = std::string(StatusFromPeer(0, order.dropped()).message());
    refused_ = epoch_;
    if (!routes_alone_ && !keeps_lanes_) options_.lanes->DropNext();
    phase_ = Phase::kNone;
    options_.log->Error("communicator ", options_.name, ": epoch ", epoch_.value(),
                        " does not come into force: ", trouble_);
  } else {
    return OutOfTurn("a step that is not known");
  }
  return absl::OkStatus();
}

absl::Status StrategyChange::Route(const peer::StrategyChange& order) {
  MCCS_ASSIGN_OR_RETURN(next_, StrategyFromProto(order.route(), options_.hosts));
  if (phase_ != Phase::kNone || next_.epoch <= strategy_.epoch ||
      !DifferInRoutesAlone(strategy_, next_)) {
    return OutOfTurn("other routes");
  }
  epoch_ = next_.epoch;
  routes_alone_ = true;
  keeps_lanes_ = false;
  opened_ = options_.lanes->current().CheckAddresses(next_);
  phase_ = Phase::kOpening;
  return absl::OkStatus();
}

absl::Status StrategyChange::Move() {
  if (phase_ != Phase::kOpened || !routes_alone_ || !opened_.ok()) return OutOfTurn("move");
  strategy_ = std::move(next_);
  trouble_.clear();
  phase_ = Phase::kNone;
  options_.lanes->current().MoveTo(strategy_);
  return absl::OkStatus();
}

absl::Status StrategyChange::Prepare(const peer::StrategyChange& order) {
  MCCS_ASSIGN_OR_RETURN(next_, StrategyFromProto(order.prepare(), options_.hosts));
  if (phase_ != Phase::kNone || next_.epoch <= strategy_.epoch) return OutOfTurn("prepare");
  epoch_ = next_.epoch;
  routes_alone_ = false;
  keeps_lanes_ = DifferInAlgorithmsAlone(strategy_, next_);
  opened_ = keeps_lanes_ ? absl::OkStatus() : options_.lanes->OpenNext(next_);
  phase_ = Phase::kOpening;
  return absl::OkStatus();
}

// ---- Turns of the engine ------------------------------------------------------------------------

absl::StatusOr<bool> StrategyChange::Poll(uint64_t started, MonotonicNs now) {
  MCCS_ASSIGN_OR_RETURN(const bool stepped, PollPhase(started));
  if (!leader_.has_value()) return stepped;
  MCCS_ASSIGN_OR_RETURN(const bool ordered, PollLeader(now));
  return stepped || ordered;
}

absl::StatusOr<bool> StrategyChange::PollPhase(uint64_t started) {
  peer::StrategyChangeAnswer answer;
  switch (phase_) {
    case Phase::kOpening:
      if (opened_.ok() && !routes_alone_ && !keeps_lanes_) {
        opened_ = options_.lanes->next_status();
        if (opened_.ok() && !options_.lanes->next_ready()) return false;
      }
      if (opened_.ok()) {
        answer.set_prepared(true);
      } else {
        answer.set_refused(std::string(opened_.message()));
      }
      phase_ = Phase::kOpened;
      break;
    case Phase::kOpened:  // They may yet break, while other hosts open theirs.
      if (routes_alone_ || keeps_lanes_ || !opened_.ok() || options_.lanes->next_status().ok())
        return false;
      opened_ = options_.lanes->next_status();
      answer.set_refused(std::string(opened_.message()));
      break;
    case Phase::kHeld:
      started_ = started;
      answer.set_started(started);
      phase_ = Phase::kAnswered;
      break;
    case Phase::kDraining:
      if (!keeps_lanes_ && !options_.lanes->OldDrained()) return false;
      answer.set_drained(true);
      phase_ = Phase::kDrained;
      break;
    default:
      return false;
  }
  MCCS_RETURN_IF_ERROR(Answer(std::move(answer)));
  return true;
}

// To the leader, which may be this host.
absl::Status StrategyChange::Answer(peer::StrategyChangeAnswer answer) {
  answer.set_epoch(epoch_.value());
  if (leader_.has_value()) return leader_->Count(options_.self, answer);
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
  if (!HasLeft()) MCCS_RETURN_IF_ERROR(Obey(*order));
  return true;
}

MonotonicNs StrategyChange::NextDeadline() const {
  return leader_.has_value() ? leader_->NextDeadline() : std::numeric_limits<MonotonicNs>::max();
}

}  // namespace mccs
