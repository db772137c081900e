// Spreads the roster of a communicator over its hosts, as a tree: the rendezvous sends the bytes to
// the first hosts of the roster, and every host forwards them to a few others. So no host sends
// more than a constant number of rosters.
//
// clang-format off
//   rendezvous ──Roster──► hosts 0 … 15 ──Roster──► 16 … 79 ──Roster──► 80 … 335 ──► …
//        └──────RosterNotice (hash of the bytes)──► hosts 16 …
// clang-format on
//
// A forwarder may be an impostor, like any peer: the receiver compares the bytes with the hash that
// the rendezvous sent it, and asks the rendezvous for the bytes if they differ or are late
// (joining.h). A forwarder connects to the receiver with the purpose kJoin and an id that follows
// from the unique id (RelayIdOf), sends the Roster, and waits until the receiver closes.
//
// OWNER: the daemon, because a host forwards a roster even if its communicator has ended.
// THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_ROSTER_RELAY_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_ROSTER_RELAY_H_

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/ids.h"
#include "proto/peer.pb.h"
#include "service/communicator/links/dial.h"
#include "service/communicator/links/peer_link.h"

namespace mccs {

// Hosts, the first of the roster, that get it from the rendezvous.
inline constexpr int kDirectRosters = 16;
// Hosts to which each host forwards it.
inline constexpr int kRosterFanOut = 4;
// How long a host waits for a forwarder before it asks the rendezvous.
inline constexpr int64_t kRelayTimeoutNs = 2 * kNsPerSec;
// How long a forwarder waits for the receiver to read the roster.
inline constexpr int64_t kForwardTimeoutNs = 10 * kNsPerSec;

// The hosts to which `self` forwards the roster of `hosts` hosts.
std::vector<HostIndex> RosterChildren(HostIndex self, int hosts);

// Identifies the relay of unique id `id` among daemons.
CommId RelayIdOf(CommId id, const Secret& secret);
// The hash of RosterNotice.
std::string RosterHash(const Secret& secret, const std::string& roster);

class RosterRelay {
 public:
  // Receives the forwarded rosters of one host's part of a communicator, until it is destroyed.
  class Inbox {
   public:
    // `most_bytes`: of a roster. Wakes `waker` (may be null) when a roster has arrived.
    // LIFETIME: relay and waker outlive it.
    Inbox(RosterRelay& relay, CommId relay_id, const Secret& secret, uint32_t most_bytes,
          Waker* waker);
    ~Inbox();
    Inbox(const Inbox&) = delete;

    // The next serialised roster; nothing if none has arrived. Not checked in any way.
    std::optional<std::string> Take();

   private:
    friend class RosterRelay;
    RosterRelay& relay_;
    const CommId relay_id_;
    const Secret secret_;
    const uint32_t most_bytes_;
    Waker* const waker_;
    std::list<std::string> arrived_;  // at most kMaxArrived
  };

  // LIFETIME: `access` and what it points to outlive this.
  explicit RosterRelay(const PeerAccess& access) : access_(access) {}

  // The secret of an inbox, for the handshake; nothing if there is none for `relay_id`.
  std::optional<Secret> SecretOf(CommId relay_id) const;
  // Takes a forwarder that has proven to know the secret of `relay_id`.
  void Accept(CommId relay_id, const Secret& secret, std::unique_ptr<Connection> connection);

  // Sends a serialised roster to the relays at `hosts`. A tenant that forwards too much at once is
  // not served: its hosts ask their rendezvous.
  void Forward(const std::string& tenant, std::string roster, CommId relay_id, const Secret& secret,
               const std::vector<Endpoint>& hosts);

  // Returns true if anything moved.
  bool Poll();
  // The next time at which Poll has work even if nothing arrives; never if there is none.
  MonotonicNs NextDeadline() const;

 private:
  static constexpr size_t kMaxArrived = 2;  // per inbox; more are dropped
  static constexpr int kMaxForwarders = 4;  // per relay id at once
  static constexpr int kMaxForwardsPerTenant = 64;

  struct Incoming {
    CommId relay_id;
    Secret secret;
    std::unique_ptr<PeerLink> link;
    MonotonicNs deadline = 0;
  };
  struct Outgoing {
    std::string tenant;
    std::unique_ptr<Dial> dial;      // until the link is open
    std::unique_ptr<PeerLink> link;  // after that
    std::shared_ptr<const peer::Message> roster;
    MonotonicNs deadline = 0;
  };

  // Both return true when the connection is no longer needed.
  bool Receive(Incoming& incoming, bool& moved);
  bool Send(Outgoing& outgoing, bool& moved);
  void Deliver(const Incoming& from, const std::string& roster);

  const PeerAccess& access_;
  absl::flat_hash_map<CommId, std::vector<Inbox*>> inboxes_;
  std::list<Incoming> incoming_;
  std::list<Outgoing> outgoing_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_ROSTER_RELAY_H_
