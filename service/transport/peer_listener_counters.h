// Counters of the listeners for other daemons, for the metrics.
#ifndef MCCS_SERVICE_TRANSPORT_PEER_LISTENER_COUNTERS_H_
#define MCCS_SERVICE_TRANSPORT_PEER_LISTENER_COUNTERS_H_

#include "base/counter.h"

namespace mccs {

// Handshakes by their end. THREAD: base/counter.h; the engine writes.
struct PeerListenerCounters {
  Counter accepted;
  Counter not_authenticated;  // a wrong or no certificate, or another secret
  Counter incomplete;         // the client was silent, sent something else, or closed
  Counter displaced;          // the oldest of too many at a time
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_PEER_LISTENER_COUNTERS_H_
