// The agent's part in comparing clocks (Heartbeat in proto/agent.proto): each of its heartbeats
// says when the controller's last one came. One per stream.
//
// THREAD: any, under the agent's mutex.
#ifndef MCCS_SERVICE_AGENT_CLOCK_ECHO_H_
#define MCCS_SERVICE_AGENT_CLOCK_ECHO_H_

#include "base/clock.h"
#include "proto/agent.pb.h"

namespace mccs {

class ClockEcho {
 public:
  // A heartbeat of the controller has come. Times are of the clock by which daemons pace.
  void Heard(const agent::Heartbeat& beat, MonotonicNs now);
  // The one to send now.
  agent::Heartbeat Beat(MonotonicNs now) const;

 private:
  MonotonicNs heard_sent_ = 0;  // on the controller's clock; 0: none that says so
  MonotonicNs heard_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_CLOCK_ECHO_H_
