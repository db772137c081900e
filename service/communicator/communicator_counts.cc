// The part of a Communicator that counts: communicators by state, changes of strategy, and
// activity.
#include <utility>

#include "service/communicator/communicator.h"

namespace mccs {

Communicator::~Communicator() { Enter(State::kClosed); }

void Communicator::Enter(State state) {
  state_ = state;
  switch (state) {
    case State::kForming:
      counted_ = GaugeShare(counters_->forming);
      break;
    case State::kActive:
      counted_ = GaugeShare(counters_->active);
      break;
    case State::kFailed:
      counted_ = GaugeShare(counters_->failed);
      break;
    case State::kClosed:
      counted_ = GaugeShare();
      break;
  }
  CountEpoch();
}

void Communicator::CountEpoch() {
  const Epoch now = state_ == State::kActive ? formation_.strategy->epoch : Epoch(0);
  const Epoch before = std::exchange(counted_epoch_, now);
  if (before == now) return;
  if (before != Epoch(0)) counters_->LeaveEpoch(before.value());
  if (now != Epoch(0)) counters_->EnterEpoch(now.value());
}

// A single host does not use the network.
void Communicator::RecordActivity(MonotonicNs now) {
  if (formation_.members->layout.host_count() < 2) return;
  activity_.Update(loop_->running() || messages_->busy(),
                   loop_->completed() + messages_->completed(), now);
}

void Communicator::CountChange(Epoch before, Epoch refused_before) {
  CountEpoch();
  if (formation_.strategy->epoch != before) counters_->changes_done.Add(1);
  if (reporter_.rejected_epoch() != refused_before) counters_->changes_rejected.Add(1);
}

}  // namespace mccs
