#include "service/agent/clock_echo.h"

namespace mccs {

void ClockEcho::OnHeartbeat(const agent::v1::Heartbeat& beat, MonotonicNs now) {
  received_sent_ = beat.sent_ns();
  received_ = now;
}

agent::v1::Heartbeat ClockEcho::MakeHeartbeat(MonotonicNs now) const {
  agent::v1::Heartbeat beat;
  beat.set_sent_ns(now);
  if (received_sent_ == 0) return beat;
  beat.set_echoed_sent_ns(received_sent_);
  beat.set_received_ns(received_);
  return beat;
}

}  // namespace mccs
