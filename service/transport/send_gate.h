// Limits how much a lane may send to its connection now. The executor posts as far as credit allows
// and is not affected; blocked slices wait in the lane.
//
// THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_TRANSPORT_SEND_GATE_H_
#define MCCS_SERVICE_TRANSPORT_SEND_GATE_H_

#include <cstdint>

namespace mccs {

class SendGate {
 public:
  virtual ~SendGate() = default;
  // Payload bytes that may be sent now; 0: none, and the owner of the gate knows when to retry.
  // Called only by a lane that has data and could send it.
  virtual uint64_t Allowance() = 0;
  // `bytes` have been sent. A lane that sends whole slices may exceed the allowance by one slice.
  virtual void Sent(uint64_t bytes) = 0;

  struct Turn {
    bool held = false;       // the last Allowance of this turn was 0
    bool unsent = false;     // some slices have not been sent
    bool in_flight = false;  // some bytes are sent and not acknowledged
  };
  // Reports the state at the end of each of the lane's turns.
  virtual void OnTurnEnd(const Turn& turn) = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_SEND_GATE_H_
