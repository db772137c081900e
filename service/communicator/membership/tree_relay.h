// Spreads bytes from one daemon, the source, over the hosts of a communicator, as a tree: the
// source sends the bytes to the first receivers, and every receiver forwards them to a few others.
// So no host sends them more than a constant number of times.
//
// clang-format off
//   source ──bytes──► receivers 0 … 15 ──bytes──► 16 … 79 ──bytes──► 80 … 335 ──► …
//      └────────notice (hash of the bytes)──► receivers 16 …
// clang-format on
//
// The rendezvous is the source of the roster, the leader that of the first strategy. A forwarder
// may be an impostor, like any peer: the receiver compares the bytes with the hash that the source
// sent it, and asks the source for the bytes if they differ or are late (joining.h,
// strategy_spread.h). A forwarder connects to the receiver with the purpose kJoin and an id that
// follows from the communicator's id and secret (RelayIdOf), sends the bytes, and waits until the
// receiver closes.
//
// OWNER: the daemon, because a host forwards a roster even if its communicator has ended.
// THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_TREE_RELAY_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_TREE_RELAY_H_

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

// Receivers, the first ones, that get the bytes from the source.
inline constexpr int kDirectReceivers = 16;
// Receivers to which each receiver forwards them.
inline constexpr int kTreeFanOut = 4;
// How long a receiver waits for a forwarder before it asks the source.
inline constexpr int64_t kRelayTimeoutNs = 2 * kNsPerSec;
// How long a forwarder waits for the receiver to read the bytes.
inline constexpr int64_t kForwardTimeoutNs = 10 * kNsPerSec;

// The receivers to which receiver `self` of `receivers` forwards.
std::vector<int> TreeChildren(int self, int receivers);

// A kind of bytes that is spread.
enum class Relayed : uint8_t { kRoster, kStrategy };

// Identifies the relay of communicator `id` among daemons. Of a roster: `id` is from the unique id.
CommId RelayIdOf(Relayed kind, CommId id, const Secret& secret);
// The hash of RosterNotice and OpenNotice.
std::string RelayHash(const Secret& secret, const std::string& bytes);

class TreeRelay {
 public:
  // Identifies what is forwarded.
  struct Subject {
    Relayed kind;
    CommId relay_id;
    Secret secret;
  };

  // Receives the forwarded bytes of one host's part of a communicator, until it is destroyed.
  class Inbox {
   public:
    // `most_bytes`: of a message. Wakes `waker` (may be null) when bytes have arrived.
    // LIFETIME: relay and waker outlive it.
    Inbox(TreeRelay& relay, const Subject& subject, uint32_t most_bytes, Waker* waker);
    ~Inbox();
    Inbox(const Inbox&) = delete;

    // The next bytes; nothing if none have arrived. Not checked in any way.
    std::optional<std::string> Take();

   private:
    friend class TreeRelay;
    TreeRelay& relay_;
    const Subject subject_;
    const uint32_t most_bytes_;
    Waker* const waker_;
    std::list<std::string> arrived_;  // at most kMaxArrived
  };

  // LIFETIME: `access` and what it points to outlive this.
  explicit TreeRelay(const PeerAccess& access) : access_(access) {}

  // The secret of an inbox, for the handshake; nothing if there is none for `relay_id`.
  std::optional<Secret> SecretOf(CommId relay_id) const;
  // Takes a forwarder that has proven to know the secret of `relay_id`.
  void Accept(CommId relay_id, const Secret& secret, std::unique_ptr<Connection> connection);

  // Sends bytes to the relays at `hosts`, to kMaxOpenForwards of a tenant at a time. A tenant that
  // has kMaxForwards unsent is not served: its hosts ask their sources.
  void Forward(const std::string& tenant, const Subject& subject, std::string bytes,
               const std::vector<Endpoint>& hosts);
  static constexpr int kMaxOpenForwards = 64;
  static constexpr int kMaxForwards = 512;

  // Returns true if anything moved.
  bool Poll();
  // The next time at which Poll has work even if nothing arrives; never if there is none.
  MonotonicNs NextDeadline() const;

 private:
  static constexpr size_t kMaxArrived = 2;  // per inbox; more are dropped
  static constexpr int kMaxForwarders = 4;  // per relay id at once

  struct Incoming {
    CommId relay_id;
    Secret secret;
    std::unique_ptr<PeerLink> link;
    MonotonicNs deadline = 0;
  };
  // Bytes that have not been sent to a host.
  struct Forwarding {
    DialOptions dial;
    std::shared_ptr<const peer::Message> message;
    MonotonicNs deadline = 0;
  };
  struct Outgoing {
    Forwarding what;
    std::unique_ptr<Dial> dial;      // until the link is open
    std::unique_ptr<PeerLink> link;  // after that
  };
  struct Tenant {
    std::list<Outgoing> open;
    std::list<Forwarding> waiting;
  };

  // Both return true when the connection is no longer needed.
  bool Receive(Incoming& incoming, bool& moved);
  bool Send(Outgoing& outgoing, bool& moved);
  // Returns true when nothing is left.
  bool SendAll(Tenant& tenant, bool& moved);
  void Deliver(const Incoming& from, const peer::Message& message);

  const PeerAccess& access_;
  absl::flat_hash_map<CommId, std::vector<Inbox*>> inboxes_;
  std::list<Incoming> incoming_;
  absl::flat_hash_map<std::string, Tenant> outgoing_;  // of tenants that forward anything
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_TREE_RELAY_H_
