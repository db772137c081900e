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
// A program may act as all other hosts of a large communicator. So connections get turns by tenant
// (turn_queue.h), a turn of the engine serves a few of them, and each tenant has a limit of memory.
// Messages beyond a limit are dropped, counted and logged; their receivers ask the source.
//
// OWNER: the daemon, because a host forwards a roster even if its communicator has ended.
// THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_TREE_RELAY_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_TREE_RELAY_H_

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "proto/peer.pb.h"
#include "service/communicator/links/dial.h"
#include "service/communicator/links/peer_link.h"
#include "service/communicator/membership/relay_memory.h"
#include "service/communicator/turns/turn_cost.h"
#include "service/communicator/turns/turn_queue.h"
#include "service/counters.h"

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

// Parses bytes that are forwarded as they are. kDataLoss: they cannot be parsed, or they have more
// bytes than their content needs, for example unknown fields.
absl::Status ParseRelayed(const std::string& bytes, google::protobuf::Message* message);

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
    // `tenant`: of the communicator. `most_bytes`: of a message. Wakes `waker` (may be null) when
    // bytes have arrived. LIFETIME: relay and waker outlive it.
    Inbox(TreeRelay& relay, const Subject& subject, std::string tenant, uint32_t most_bytes,
          Waker* waker);
    ~Inbox();
    Inbox(const Inbox&) = delete;

    // The next bytes; nothing if none have arrived. Not checked in any way.
    std::optional<std::string> Take();

   private:
    friend class TreeRelay;
    struct Arrived {
      std::string bytes;
      RelayMemory::Share memory;
    };
    TreeRelay& relay_;
    const Subject subject_;
    const std::string tenant_;
    const uint32_t most_bytes_;
    Waker* const waker_;
    std::deque<Arrived> arrived_;  // at most kMaxArrived
  };

  // `counters`: null: not counted. LIFETIME: `access` and what it points to, `log` and `counters`
  // outlive this.
  TreeRelay(const PeerAccess& access, Log& log, DaemonCounters* counters = nullptr);
  ~TreeRelay();
  TreeRelay(const TreeRelay&) = delete;

  // The secret of an inbox, for the handshake; nothing if there is none for `relay_id`.
  std::optional<Secret> SecretOf(CommId relay_id) const;
  // Takes a forwarder that has proven to know the secret of `relay_id`.
  void Accept(CommId relay_id, const Secret& secret, std::unique_ptr<Connection> connection);

  // Sends bytes to the relays at `hosts`, to kMaxOpenForwards of a tenant at a time. Drops them
  // for a tenant that has kMaxForwards unsent or RelayMemory::kMaxBytes: its hosts ask their
  // sources.
  void Forward(const std::string& tenant, const Subject& subject, std::string bytes,
               const std::vector<Endpoint>& hosts);
  static constexpr int kMaxOpenForwards = 64;
  static constexpr int kMaxForwards = 512;

  // One turn: of at most kLinksPerTurn connections, and until their cost (turn_cost.h) reaches
  // kTurnBytes. Returns true if anything moved or another turn is needed at once.
  bool Poll();
  static constexpr int64_t kTurnBytes = 1 << 20;
  static constexpr int kLinksPerTurn = 16;
  // The next time at which Poll has work even if nothing arrives; never if there is none.
  MonotonicNs NextDeadline() const;
  // Held for a tenant.
  uint64_t HeldBytes(const std::string& tenant) const { return memory_.BytesOf(tenant); }

 private:
  static constexpr size_t kMaxArrived = 2;     // per inbox; more are dropped
  static constexpr size_t kMaxForwarders = 4;  // per relay id at once

  // Of a connection's turn, besides its bytes.
  static constexpr int64_t kLinkTurnCost = kTurnBytes / kLinksPerTurn;

  struct Result {
    bool done = false;  // the connection is no longer needed
    bool more = false;  // it has work without a further event
    bool moved = false;
    int64_t cost = 0;
  };
  // A connection to another relay.
  struct Link : TurnQueue::Participant {
    Link(TreeRelay& own_relay, const std::string& tenant)
        : Participant(own_relay.turns_, tenant), relay(own_relay) {
      ++relay.links_;
    }
    ~Link() override { --relay.links_; }
    virtual Result Advance() = 0;
    // Destroys it.
    virtual void End() = 0;

    TreeRelay& relay;
    MonotonicNs deadline = 0;
  };
  struct Incoming;
  struct Outgoing;
  // A message for the hosts to which one communicator forwards it.
  struct Payload {
    PeerFrame frame;
    RelayMemory::Share memory;
  };
  // Bytes that have not been sent to a host.
  struct Forwarding {
    DialOptions dial;
    std::shared_ptr<const Payload> payload;
    MonotonicNs deadline = 0;
  };
  // The inboxes of a relay id, and the forwarders that send to them.
  struct Receivers {
    std::vector<Inbox*> inboxes;
    std::list<Incoming> incoming;
  };
  struct Tenant {
    std::list<Outgoing> open;
    std::deque<Forwarding> waiting;
  };

  void Deliver(const Incoming& from, peer::Message& message);
  // Opens the next forwards of the tenant; forgets it if it has none.
  void OpenNext(const std::string& tenant);
  // `what` is dropped for `hosts` hosts of the tenant.
  void Drop(const std::string& tenant, const char* what, size_t hosts, const char* why);

  const PeerAccess& access_;
  DaemonCounters* const counters_;
  LimitedWarnings warnings_;
  TurnQueue turns_{kControlQuantum};
  RelayMemory memory_;
  size_t links_ = 0;  // open ones
  absl::flat_hash_map<CommId, std::unique_ptr<Receivers>> receivers_;
  absl::flat_hash_map<std::string, std::unique_ptr<Tenant>> outgoing_;  // that forward anything
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_TREE_RELAY_H_
