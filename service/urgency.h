// How the engine may wait after a turn without progress. From less to more urgent: the daemon's
// urgency is that of its most urgent communicator.
#ifndef MCCS_SERVICE_URGENCY_H_
#define MCCS_SERVICE_URGENCY_H_

#include <cstdint>

namespace mccs {

enum class Urgency : uint8_t {
  kSleep,    // until a byte or a doorbell arrives
  kBackOff,  // a GPU will write a word without a doorbell
  kSpin,     // work is running
};

}  // namespace mccs

#endif  // MCCS_SERVICE_URGENCY_H_
