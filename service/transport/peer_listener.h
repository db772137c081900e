// The daemon's open door for other daemons: accepts streams, sees them through the handshake and
// hands out those that have proven themselves. What says nothing, garbage or a lie is dropped with
// one line in the log and hurts nobody.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_PEER_LISTENER_H_
#define MCCS_SERVICE_TRANSPORT_PEER_LISTENER_H_

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "service/transport/handshake.h"
#include "service/transport/network.h"

namespace mccs {

struct PeerListenerLimits {
  ServerPatience patience;
  size_t pending = 1024;  // handshakes at a time; the oldest gives way
};

// A proven connection.
struct Peer {
  Preamble preamble;
  std::unique_ptr<Connection> connection;
};

class PeerListener {
 public:
  // LIFETIME: `random` and `log` outlive this.
  PeerListener(std::unique_ptr<Listener> listener, SecretLookup lookup, Random& random, Log& log,
               const PeerListenerLimits& limits = {});

  // Handshakes from now on, and what comes of them but lanes, bear this DSCP; 0: none.
  void Mark(uint8_t dscp);

  // Goes on with what waits. Call it also when a communicator has become known, and at
  // NextDeadline(). Returns the connections that have proven themselves since.
  std::vector<Peer> Poll(MonotonicNs now);

  // When Poll has something to do though no byte arrives; nothing: never.
  std::optional<MonotonicNs> NextDeadline() const;

  Endpoint local() const { return listener_->local(); }
  size_t pending() const { return pending_.size(); }

 private:
  void AcceptNew(MonotonicNs now);

  std::unique_ptr<Listener> listener_;
  const SecretLookup lookup_;
  Random& random_;
  Log& log_;
  const PeerListenerLimits limits_;
  std::list<ServerHandshake> pending_;  // oldest first
  bool accept_failed_ = false;
  bool marked_ = false;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_PEER_LISTENER_H_
