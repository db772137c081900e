// Between a lane and its connection: how much the lane may send now. The executor posts as far as
// credit goes and does not notice; what may not go out yet waits in the lane.
//
// THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_TRANSPORT_SEND_GATE_H_
#define MCCS_SERVICE_TRANSPORT_SEND_GATE_H_

#include <cstdint>

namespace mccs {

class SendGate {
 public:
  virtual ~SendGate() = default;
  // Payload bytes that may go out now; 0: none, and whoever owns the gate knows when to ask again.
  // Asked only by a lane that has something to send and could.
  virtual uint64_t Allowance() = 0;
  // So many have gone out. A lane that sends whole slices may go beyond the allowance by one.
  virtual void Sent(uint64_t bytes) = 0;

  struct Turn {
    bool held = false;        // the last Allowance of this turn was 0
    bool unsent = false;      // there are slices that have not gone out
    bool on_the_way = false;  // bytes are between here and the peer
  };
  // How things stand at the end of each of the lane's turns.
  virtual void EndTurn(const Turn& turn) = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_SEND_GATE_H_
