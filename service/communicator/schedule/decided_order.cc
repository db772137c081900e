#include "service/communicator/schedule/decided_order.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace mccs {

void DecidedOrder::Request() {
  if (hosts_ == 1 || requested_ || state_ != State::kOwn) return;
  requested_ = true;
  if (leads()) {
    SendRequest();
    return;
  }
  peer::Message message;
  message.mutable_order_request();
  star_->SendToLeader(message);
}

bool DecidedOrder::Allows(uint64_t number, uint64_t key) const {
  if (hosts_ == 1) return true;
  switch (state_) {
    case State::kOwn:
      return key == kPosted;
    case State::kHeld:
      return false;
    case State::kDecided:
      break;
  }
  if (number <= boundary_) return key == kPosted;
  if (leads()) return true;
  return number == next_ && !decisions_.empty() && decisions_.front() == key;
}

void DecidedOrder::Started(uint64_t number, uint64_t key) {
  started_ = number;
  if (state_ != State::kDecided || number <= boundary_) return;
  if (!leads()) {
    decisions_.pop_front();
    ++next_;
    return;
  }
  peer::Message message;
  message.mutable_order_next()->set_operation(number);
  message.mutable_order_next()->set_captured(key);
  star_->Broadcast(message);
}

// ---- The leader's request -----------------------------------------------------------------------

void DecidedOrder::SendRequest() {
  state_ = State::kHeld;
  vote_.Begin();
  MCCS_CHECK(vote_.OnStarted(star_->leader(), started_, started_).ok());
  peer::Message message;
  message.mutable_order_hold();
  star_->Broadcast(message);
}

bool DecidedOrder::Poll() {
  if (state_ != State::kHeld || !leads()) return false;
  const std::optional<uint64_t> boundary = vote_.Agreed();
  if (!boundary.has_value()) return false;
  peer::Message message;
  message.mutable_order_begins()->set_after(*boundary);
  star_->Broadcast(message);
  Begin(*boundary);
  return true;
}

void DecidedOrder::Begin(uint64_t boundary) {
  state_ = State::kDecided;
  boundary_ = boundary;
  next_ = boundary + 1;
}

// ---- Messages -----------------------------------------------------------------------------------

absl::StatusOr<bool> DecidedOrder::OnMessage(const StarMessage& received) {
  const peer::Message& message = received.message;
  const bool from_leader = received.from == star_->leader() && !leads();
  if (message.has_order_request()) {
    if (!leads()) return absl::DataLossError("this host is not the leader");
    if (state_ == State::kOwn) SendRequest();
  } else if (message.has_order_started()) {
    // The host may have departed after it sent the answer, and the boundary be known.
    if (leads() && vote_.HasLeft(received.from)) return true;
    if (!leads() || state_ != State::kHeld)
      return absl::DataLossError("unexpected OrderStarted: this host did not ask for it");
    MCCS_RETURN_IF_ERROR(
        vote_.OnStarted(received.from, message.order_started().operation(), started_));
  } else if (message.has_order_hold()) {
    if (!from_leader || state_ != State::kOwn) {
      return absl::DataLossError("unexpected order_hold: expected one from the leader, once");
    }
    state_ = State::kHeld;
    peer::Message answer;
    answer.mutable_order_started()->set_operation(started_);
    star_->SendToLeader(answer);
  } else if (message.has_order_begins()) {
    if (!from_leader || state_ != State::kHeld) {
      return absl::DataLossError(
          "unexpected order_begins: expected it from the leader, after order_hold");
    }
    MCCS_RETURN_IF_ERROR(CheckBoundary(message.order_begins().after(), started_));
    Begin(message.order_begins().after());
  } else if (message.has_order_next()) {
    const peer::OrderNext& next = message.order_next();
    if (!from_leader || state_ != State::kDecided || decisions_.size() >= kMaxDecisionsAhead ||
        next.operation() != next_ + decisions_.size()) {
      return absl::DataLossError(absl::StrCat(
          "unexpected order_next for operation #", next.operation(), ": expected #",
          next_ + decisions_.size(), " from the leader, with fewer than ", kMaxDecisionsAhead,
          " pending decisions (", decisions_.size(), " are pending)"));
    }
    decisions_.push_back(next.captured());
  } else {
    return false;
  }
  return true;
}

}  // namespace mccs
