// Clock comparison, the agent's part (Heartbeat in proto/agent.proto): each heartbeat of the agent
// echoes the time of the controller's last one. One per stream.
//
// THREAD: any, under the agent's mutex.
#ifndef MCCS_SERVICE_AGENT_CLOCK_ECHO_H_
#define MCCS_SERVICE_AGENT_CLOCK_ECHO_H_

#include "base/clock.h"
#include "proto/agent.pb.h"

namespace mccs {

class ClockEcho {
 public:
  // Records a heartbeat of the controller. `now`: on the clock that paces lanes.
  void OnHeartbeat(const agent::v1::Heartbeat& beat, MonotonicNs now);
  // Returns the heartbeat to send.
  agent::v1::Heartbeat MakeHeartbeat(MonotonicNs now) const;

 private:
  MonotonicNs received_sent_ = 0;  // on the controller's clock; 0: no heartbeat, or without a time
  MonotonicNs received_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_CLOCK_ECHO_H_
