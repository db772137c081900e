#include "service/agent/clock_echo.h"

namespace mccs {

void ClockEcho::Heard(const agent::Heartbeat& beat, MonotonicNs now) {
  heard_sent_ = beat.sent_ns();
  heard_ = now;
}

agent::Heartbeat ClockEcho::Beat(MonotonicNs now) const {
  agent::Heartbeat beat;
  beat.set_sent_ns(now);
  if (heard_sent_ == 0) return beat;
  beat.set_heard_sent_ns(heard_sent_);
  beat.set_heard_ns(heard_);
  return beat;
}

}  // namespace mccs
