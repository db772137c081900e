// The daemon's open door for other daemons: accepts streams, sees them through the handshake and
// hands out those that have proven themselves. What says nothing, garbage or a lie is dropped with
// one line in the log and hurts nobody.
//
// Handshakes cost nothing while they wait, for bytes or for their communicator to become known
// here. When there are too many, the address with most of them loses the oldest: a stranger who
// opens them without end pushes out its own. One address alone may have all of them, since the
// daemons of a lab share one, and a busy host opens hundreds of lanes to us before we have a
// roster.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_PEER_LISTENER_H_
#define MCCS_SERVICE_TRANSPORT_PEER_LISTENER_H_

#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "base/random.h"
#include "base/waker.h"
#include "service/transport/handshake.h"
#include "service/transport/network.h"

namespace mccs {

struct PeerListenerLimits {
  ServerPatience patience;
  size_t pending = 1024;  // handshakes at a time
};

// A proven connection, and the secret that it has proven to hold: the lookup may say another one by
// the time that the connection is used.
struct Peer {
  Preamble preamble;
  Secret secret{};
  std::unique_ptr<Connection> connection;
};

class PeerListener final : private Waker {
 public:
  // LIFETIME: `random` and `log` outlive this.
  PeerListener(std::unique_ptr<Listener> listener, SecretLookup lookup, Random& random, Log& log,
               const PeerListenerLimits& limits = {});

  // Handshakes from now on, and what comes of them but lanes, bear this DSCP; 0: none.
  void Mark(uint8_t dscp);

  // Goes on with what waits. Call it also at NextDeadline(). Returns the connections that have
  // proven themselves since.
  std::vector<Peer> Poll(MonotonicNs now);
  // The lookup may say more of this communicator than it did: the next Poll asks it again for those
  // who wait for that.
  void LookAgain(CommId id);

  // When Poll has something to do though no byte arrives; nothing: never.
  std::optional<MonotonicNs> NextDeadline() const;

  Endpoint local() const { return listener_->local(); }
  size_t pending() const { return pending_.size() + waiting_.size(); }

 private:
  using Handshakes = std::list<ServerHandshake>;
  static constexpr MonotonicNs kNever = std::numeric_limits<MonotonicNs>::max();

  void Wake() override { woken_ = true; }
  void AcceptNew(MonotonicNs now);
  void PollEach(Handshakes& handshakes, MonotonicNs now, std::vector<Peer>& proven);
  // Drops one of the address that has most.
  void MakeRoom(MonotonicNs now);
  Handshakes::iterator Remove(Handshakes& handshakes, Handshakes::iterator it);

  std::unique_ptr<Listener> listener_;
  const SecretLookup lookup_;
  Random& random_;
  Log& log_;
  LimitedWarnings warnings_{log_, "address"};
  const PeerListenerLimits limits_;
  Handshakes waiting_;                   // for a secret, who has waited longest first
  Handshakes pending_;                   // the others, the oldest first
  bool woken_ = false;                   // bytes have come for one, or a new one
  MonotonicNs due_ = kNever;             // none of pending_ is too late before
  bool look_ = false;                    // the secret of one of waiting_ may be known
  std::map<std::string, size_t> count_;  // of both, by address
  bool accept_failed_ = false;
  bool marked_ = false;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_PEER_LISTENER_H_
