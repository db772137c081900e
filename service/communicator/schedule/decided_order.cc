#include "service/communicator/schedule/decided_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/communicator/links/star_protocol.h"

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

// ---- The leader's request
// ------------------------------------------------------------------------

void DecidedOrder::SendRequest() {
  state_ = State::kHeld;
  answered_.assign(static_cast<size_t>(hosts_), false);
  highest_ = started_;
  peer::Message message;
  message.mutable_order_hold();
  star_->Broadcast(message);
}

// A departed host starts nothing more; its departure carries its last operation.
bool DecidedOrder::Poll() {
  if (state_ != State::kHeld || !leads()) return false;
  for (int h = 0; h < hosts_; ++h) {
    const bool is_leader = star_->leader() == HostIndex(h);
    if (!is_leader && !answered_[static_cast<size_t>(h)] && !star_->HasDeparted(HostIndex(h)))
      return false;
  }
  peer::Message message;
  message.mutable_order_begins()->set_after(highest_);
  star_->Broadcast(message);
  Begin(highest_);
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
    MCCS_RETURN_IF_ERROR(TakeStarted(received.from, message.order_started().operation()));
  } else if (message.has_order_hold()) {
    if (!from_leader || state_ != State::kOwn) {
      return absl::DataLossError("unexpected request for the order of operations");
    }
    state_ = State::kHeld;
    peer::Message answer;
    answer.mutable_order_started()->set_operation(started_);
    star_->SendToLeader(answer);
  } else if (message.has_order_begins()) {
    const uint64_t after = message.order_begins().after();
    if (!from_leader || state_ != State::kHeld || after < started_ ||
        !IsPlausible(after, started_)) {
      return absl::DataLossError(absl::StrCat("unexpected start of the decided order: after #",
                                              after, ", this host has started #", started_));
    }
    Begin(after);
  } else if (message.has_order_next()) {
    const peer::OrderNext& next = message.order_next();
    if (!from_leader || state_ != State::kDecided || decisions_.size() >= kMaxDecisionsAhead ||
        next.operation() != next_ + decisions_.size()) {
      return absl::DataLossError(absl::StrCat("operation #", next.operation(), " is unexpected: #",
                                              next_ + decisions_.size(), " is next, ",
                                              decisions_.size(), " of at most ", kMaxDecisionsAhead,
                                              " decisions are pending"));
    }
    decisions_.push_back(next.captured());
  } else {
    return false;
  }
  return true;
}

// The request may have been sent before the host's departure was known.
absl::Status DecidedOrder::TakeStarted(HostIndex from, uint64_t operation) {
  if (leads() && star_->HasDeparted(from)) return absl::OkStatus();
  if (!leads() || state_ != State::kHeld || answered_[static_cast<size_t>(from.value())]) {
    return absl::DataLossError("unexpected answer");
  }
  if (!IsPlausible(operation, started_)) {
    return absl::DataLossError(absl::StrCat("implausible answer: the host has started operation #",
                                            operation, ", this host #", started_));
  }
  answered_[static_cast<size_t>(from.value())] = true;
  highest_ = std::max(highest_, operation);
  return absl::OkStatus();
}

}  // namespace mccs
