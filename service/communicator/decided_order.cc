#include "service/communicator/decided_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mccs {

void DecidedOrder::Want() {
  if (hosts_ == 1 || wanted_ || state_ != State::kOwn) return;
  wanted_ = true;
  if (leads()) {
    Ask();
    return;
  }
  peer::Message message;
  message.mutable_order_wanted();
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

// ---- The leader's question ----------------------------------------------------------------------

void DecidedOrder::Ask() {
  state_ = State::kHeld;
  answered_.assign(static_cast<size_t>(hosts_), false);
  highest_ = started_;
  peer::Message message;
  message.mutable_order_asked();
  star_->Broadcast(message);
}

// A host that took its leave starts nothing any more, and its departure says how far it came.
bool DecidedOrder::Poll() {
  if (state_ != State::kHeld || !leads()) return false;
  for (int h = 0; h < hosts_; ++h) {
    const bool is_leader = star_->leader() == HostIndex(h);
    if (!is_leader && !answered_[static_cast<size_t>(h)] && !star_->Excused(HostIndex(h)))
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

absl::StatusOr<bool> DecidedOrder::Hear(const StarMessage& heard) {
  const peer::Message& message = heard.message;
  const bool from_leader = heard.from == star_->leader() && !leads();
  if (message.has_order_wanted()) {
    if (leads() && state_ == State::kOwn) Ask();
  } else if (message.has_order_started()) {
    if (!leads() || state_ != State::kHeld)
      return absl::DataLossError("an answer nobody asked for");
    answered_[static_cast<size_t>(heard.from.value())] = true;
    highest_ = std::max(highest_, message.order_started().operation());
  } else if (message.has_order_asked()) {
    if (!from_leader || state_ != State::kOwn) return absl::DataLossError("asked out of turn");
    state_ = State::kHeld;
    peer::Message answer;
    answer.mutable_order_started()->set_operation(started_);
    star_->SendToLeader(answer);
  } else if (message.has_order_begins()) {
    if (!from_leader || state_ != State::kHeld || message.order_begins().after() < started_)
      return absl::DataLossError("an order of operations begins out of turn");
    Begin(message.order_begins().after());
  } else if (message.has_order_next()) {
    const peer::OrderNext& next = message.order_next();
    if (!from_leader || state_ != State::kDecided || decisions_.size() >= kMaxDecisionsAhead ||
        next.operation() != next_ + decisions_.size()) {
      return absl::DataLossError(
          absl::StrCat("operation #", next.operation(), " is decided out of turn"));
    }
    decisions_.push_back(next.captured());
  } else {
    return false;
  }
  return true;
}

}  // namespace mccs
