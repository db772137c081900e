// The daemon's listener for other daemons: accepts streams, runs their handshakes and returns the
// authenticated ones. Silent or invalid clients are dropped with one line in the log and affect no
// other connection.
//
// Handshakes cost nothing while they wait, for bytes or for their communicator to become known on
// this host. When there are too many, the address with most of them loses its oldest, so a flood of
// connections displaces only its own. One address may have all of them: the daemons of a lab share
// one, and a busy host opens hundreds of lanes before this host has a roster.
//
// Handshakes whose certificate has proven a host have places of their own, by host, so that no
// stranger displaces them, from however many addresses. The other ones count by network: an IPv4
// address, or the /64 of an IPv6 address, since one machine has all of these; within the network
// with most, by address.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_TRANSPORT_PEER_LISTENER_H_
#define MCCS_SERVICE_TRANSPORT_PEER_LISTENER_H_

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
#include "base/ready_list.h"
#include "service/transport/handshake.h"
#include "service/transport/network.h"
#include "service/transport/peer_listener_counters.h"

namespace mccs {

struct PeerListenerLimits {
  ServerTimeouts timeouts;
  size_t pending = 1024;  // handshakes at a time that have proven no host
  size_t proven = 1024;   // those that have
};

// An authenticated connection, and the secret used. The lookup may return another secret by the
// time the connection is used.
struct Peer {
  Preamble preamble;
  Secret secret{};
  std::string host = {};  // whose daemon it is, by its certificate; empty: it has shown none
  std::unique_ptr<Connection> connection;
};

class PeerListener final {
 public:
  // `security`: of this host; null: it has none. `counters`: null: nothing is counted.
  // LIFETIME: both, `random` and `log` outlive this.
  PeerListener(std::unique_ptr<Listener> listener, SecretLookup lookup, Random& random, Log& log,
               const PeerListenerLimits& limits = {}, PeerSecurity* security = nullptr,
               PeerListenerCounters* counters = nullptr);

  // Sets the DSCP of later handshakes and of their connections except lanes; 0: none.
  void Mark(uint8_t dscp);

  // Advances the handshakes. Call it also at NextDeadline(). Returns the newly authenticated
  // connections.
  std::vector<Peer> Poll(MonotonicNs now);
  // The lookup may know more of this communicator: the next Poll calls it again for the handshakes
  // that wait for it.
  void RetryLookup(CommId id);

  // The time at which Poll must be called even if no byte arrives; nothing: never.
  std::optional<MonotonicNs> NextDeadline() const;

  Endpoint local() const { return listener_->local(); }
  size_t pending() const { return pending_.size() + waiting_.size(); }

 private:
  // Handshakes by address.
  using Sources = std::map<std::string, size_t>;
  struct SourceNetwork {
    size_t all = 0;
    Sources sources = {};
  };
  using Networks = std::map<std::string, SourceNetwork>;
  // For proven ones, the host is the network and the address.
  struct Counts {
    size_t all = 0;
    Networks networks = {};
  };
  // A turn costs nothing for handshakes without work.
  struct Pending : ReadyList::Member {
    template <typename... Arguments>
    explicit Pending(ReadyList& list, Arguments&&... arguments)
        : Member(list), handshake(std::forward<Arguments>(arguments)...) {}
    ServerHandshake handshake;
    std::list<Pending>::iterator place;
    bool waits = false;  // in waiting_
    bool proven = false;
    Networks::iterator network;  // where it is counted
    Sources::iterator source;
  };

  void AcceptNew(MonotonicNs now);
  void ListLate(MonotonicNs now);
  void Advance(Pending& pending, MonotonicNs now, std::vector<Peer>& proven);
  // Drops the oldest handshake of the address that has most, or of the host. Of equal ones, the
  // oldest: a new one has time to prove its host.
  void MakeRoom(bool proven, size_t limit, MonotonicNs now);
  void Count(Pending& pending, const std::string& network, const std::string& source);
  void Uncount(const Pending& pending);
  void Remove(Pending& pending);
  // The longest waiting that is so; then the oldest other one. Null: none.
  template <typename Condition>
  Pending* FindOldest(Condition condition);
  Counts& CountsOf(bool proven) { return proven ? proven_ : unproven_; }

  std::unique_ptr<Listener> listener_;
  const SecretLookup lookup_;
  Random& random_;
  Log& log_;
  LimitedWarnings warnings_{log_, "address"};
  const PeerListenerLimits limits_;
  PeerSecurity* const security_;
  PeerListenerCounters uncounted_;
  PeerListenerCounters& counters_;
  ReadyList ready_;
  std::list<Pending> waiting_;  // for a secret; the longest waiting first
  std::list<Pending> pending_;  // the others, the oldest first
  MonotonicNs due_ = kNever;    // no deadline of pending_ is earlier
  Counts proven_, unproven_;    // of both
  bool accept_failed_ = false;
  bool marked_ = false;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_PEER_LISTENER_H_
