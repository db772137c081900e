// The rendezvous of a communicator's ranks, at the daemon that made the unique id. It collects the
// ranks, reports the missing ones, and when all have joined spreads the roster over the daemons
// (tree_relay.h). For a while after that, it sends it to those that no other daemon sends it to.
//
//   MakeId ─► kCollecting ──all ranks joined──► roster or its hash sent, rendezvous removed
//                  │
//                  └── an invalid rank (duplicate, out of range, another size, another tenant),
//                      or a daemon that withdraws or disconnects with ranks ──► all get an error
//                      message, rendezvous removed
//
// A program may act as all daemons of many rendezvous. So they get turns by tenant (turn_queue.h),
// and a turn of the engine serves a limited part of their links.
//
// OWNER: the daemon. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_RENDEZVOUS_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_RENDEZVOUS_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/limited_warnings.h"
#include "base/log.h"
#include "base/random.h"
#include "base/ready_list.h"
#include "proto/unique_id.h"
#include "service/communicator/links/peer_link.h"
#include "service/communicator/membership/membership.h"
#include "service/communicator/turns/turn_cost.h"
#include "service/communicator/turns/turn_queue.h"
#include "service/transport/handshake.h"

namespace mccs {

// Unused ids of one tenant; beyond this number its oldest one is removed.
inline constexpr size_t kMaxUnusedIdsPerTenant = 4096;
// Maximum number of daemons in one rendezvous.
inline constexpr size_t kMaxHostsPerRendezvous = 8192;
// Maximum size of the data about one rank.
inline constexpr size_t kMaxJoinBytes = 4096;
// How long a joining host may take to read the last message of a rendezvous, or to request the
// roster.
inline constexpr int64_t kRendezvousCloseTimeoutNs = 10 * kNsPerSec;
// Requested rosters that are sent at once, of one tenant; others wait.
inline constexpr int kMaxRostersAtOnce = 16;

class Rendezvous {
 public:
  // Costs (turn_cost.h) of one turn: of collecting ranks, and of closing links.
  static constexpr int64_t kCostPerTurn = 1 << 20;
  // Of a link that is served, and of a message that is handled, besides its bytes.
  static constexpr int64_t kLinkCost = 8 << 10;
  // In the log, of one tenant.
  static constexpr int kLinesPerMinute = 64;
  // To queue a message for one of many hosts, or to close its link.
  static constexpr int64_t kQueueCost = 1 << 10;

  Rendezvous(Random& random, const Clock& clock, Log& log)
      : random_(random), clock_(clock), lines_(log, "tenant", kLinesPerMinute) {}

  // Creates an id for `tenant`, with its rendezvous here. `advertised`: where other daemons connect
  // to this one. `budget`: for whom ids, connections and turns count; null: not limited, turns
  // count for `tenant`. An error: the budget has no id left, and there is no unused one to replace.
  absl::StatusOr<wire::UniqueId> MakeId(const Endpoint& advertised, const std::string& tenant,
                                        const std::shared_ptr<TenantResources>& budget = nullptr);
  // Registers an id that was derived elsewhere (NCCL_COMM_ID), with its rendezvous here.
  absl::Status Register(const wire::UniqueId& id, const std::string& tenant,
                        const std::shared_ptr<TenantResources>& budget = nullptr);

  // The secret of a pending rendezvous, for the handshake; nothing if there is none for `id`.
  std::optional<Secret> SecretOf(CommId id) const;

  // Takes a daemon that has proven to know the secret of rendezvous `id`.
  // `host`: whose daemon it has proven to be, and no other host may join over this connection;
  // empty: nothing.
  void Accept(CommId id, std::unique_ptr<Connection> connection, const std::string& host = "");

  // Connects ranks of this daemon's own host, without the network. Null: no rendezvous with this
  // id and secret is pending here. `at`: of this daemon.
  std::unique_ptr<Connection> ConnectOwn(CommId id, const Secret& secret, const Endpoint& at);

  // One turn. Returns true if anything moved or another turn is needed at once.
  bool Poll();
  // The next time at which Poll has work even if nothing arrives; never if there is none.
  MonotonicNs NextDeadline() const;

  // Number of rendezvous that are over since the start.
  uint64_t ended() const { return ended_; }
  // Number of ids whose ranks have not all joined.
  size_t pending_rendezvous() const { return pending_rendezvous_.size(); }

 private:
  // An authenticated daemon and the ranks that it has registered so far.
  struct JoiningHost final : ReadyList::Member {
    JoiningHost(ReadyList& ready, std::unique_ptr<PeerLink> l, const std::string& host)
        : Member(ready), link(std::move(l)), proven_host(host) {}
    // In a later turn.
    void Send(const PeerFrame& frame) {
      link->Queue(frame);
      Wake();
    }
    std::unique_ptr<PeerLink> link;
    const std::string proven_host;
    std::string name;
    Endpoint endpoint;
    RdmaAddresses rdma_addresses;
    cluster::Position position;
    std::map<int, peer::Join> ranks;
    bool notified = false;  // of the roster, which another host forwards to it
    std::list<JoiningHost>::iterator place;
  };
  struct PendingRendezvous final : TurnQueue::Participant {
    // `tenant`: that asked for the id. `payer`: for whom it counts.
    PendingRendezvous(TurnQueue& turns, CommId own_id, const std::string& tenant,
                      const std::string& payer, BudgetShare share)
        : Participant(turns, payer),
          id(own_id),
          creator(tenant),
          counted_as(payer),
          unused_share(std::move(share)) {}
    const CommId id;
    const std::string creator;
    const std::string counted_as;
    BudgetShare unused_share;                 // until some host has connected
    std::shared_ptr<TenantResources> budget;  // null: not limited
    Secret secret{};
    bool guessable = false;
    bool active = false;                 // some host has connected
    std::list<CommId>::iterator unused;  // until then
    int ranks = 0;                       // size; known from the first join, like the names
    std::string tenant, comm_name;
    ReadyList ready{this};  // of joining_hosts
    std::list<JoiningHost> joining_hosts;
    absl::flat_hash_map<int, const JoiningHost*> joined;  // by rank
    PeerFrame roster;                                     // when all have joined
    int first_missing = 0;                                // no lower rank is missing
    size_t reported_joined = 0;   // joined.size() at the last report of missing ranks
    MonotonicNs next_report = 0;  // time of the next report, if joined has changed
    bool over = false;
  };
  struct ClosingLink;
  // The rosters that hosts of one tenant have requested.
  struct Requests {
    std::list<ClosingLink*> waiting;
    int sending = 0;
  };
  // A link whose last message may still be in flight.
  struct ClosingLink final : TurnQueue::Participant {
    enum class State : uint8_t { kIdle, kRequested, kSending, kSent };
    ClosingLink(TurnQueue& turns, const std::string& own_tenant, std::unique_ptr<PeerLink> l)
        : Participant(turns, own_tenant), tenant(own_tenant), link(std::move(l)) {
      link->SetWaker(this);
    }
    const std::string tenant;
    std::unique_ptr<PeerLink> link;
    MonotonicNs until = 0;
    PeerFrame roster;                           // that the host was only notified of
    State state = State::kIdle;                 // of `roster`
    std::list<ClosingLink*>::iterator request;  // in kRequested
    std::list<ClosingLink>::iterator place;
  };

  // Whether one more daemon may join; then the rendezvous is no longer unused.
  bool Admit(PendingRendezvous& rendezvous);
  static JoiningHost& AddHost(PendingRendezvous& rendezvous, std::unique_ptr<Connection> connection,
                              const std::string& host);
  bool PollRendezvous(CommId id, PendingRendezvous& rendezvous);
  void HandleJoin(CommId id, PendingRendezvous& rendezvous, JoiningHost& joining_host,
                  const peer::Join& join);
  absl::Status CheckJoin(const PendingRendezvous& rendezvous, const JoiningHost& joining_host,
                         const peer::Join& join) const;
  // Rejects one host that has not registered a rank; its link is null afterwards. Any tenant can
  // guess an id from NCCL_COMM_ID, and must not end another tenant's rendezvous.
  void RejectHost(const PendingRendezvous& rendezvous, JoiningHost& joining_host,
                  const absl::Status& why);
  void SendMissing(PendingRendezvous& rendezvous);
  void SendRoster(CommId id, PendingRendezvous& rendezvous);
  void RejectRendezvous(CommId id, PendingRendezvous& rendezvous, const absl::Status& why);
  // Reads a host's messages; true if it has ended.
  bool PollHost(CommId id, PendingRendezvous& rendezvous, JoiningHost& joining_host, bool& moved);
  // REQUIRES: `payer` has an unused id.
  void DropOldestUnused(const std::string& payer);
  void LeaveUnused(PendingRendezvous& rendezvous);
  void End(PendingRendezvous& rendezvous);
  void CloseLater(const std::string& tenant, std::unique_ptr<PeerLink> link, PeerFrame roster);
  bool PollRanks();
  bool PollClosingLinks();
  // Returns true if the link is no longer needed.
  bool PollClosingLink(ClosingLink& closing);
  void ReadClosingLink(ClosingLink& closing);
  void RemoveClosingLink(ClosingLink& closing);
  void SendRequestedRosters(const std::string& tenant);
  // A line of the log.
  void Write(const PendingRendezvous& rendezvous, LogLevel level, const std::string& line) {
    lines_.Write(rendezvous.counted_as, line, clock_.Now(), level);
  }
  void Spend(int64_t cost) { spent_ += cost; }
  // For work on all its links.
  void SpendForAll(const PendingRendezvous& rendezvous) {
    Spend(static_cast<int64_t>(rendezvous.joining_hosts.size()) * kQueueCost);
  }

  Random& random_;
  const Clock& clock_;
  LimitedWarnings lines_;
  TurnQueue turns_{kControlQuantum};          // of pending_rendezvous_
  TurnQueue closing_turns_{kControlQuantum};  // of closing_links_
  int64_t spent_ = 0;                         // by the rendezvous or link whose turn it is
  absl::flat_hash_map<CommId, std::unique_ptr<PendingRendezvous>> pending_rendezvous_;
  uint64_t ended_ = 0;
  // Those without a host, by counted_as, oldest first.
  std::map<std::string, std::list<CommId>> unused_;
  std::list<ClosingLink> closing_links_;
  absl::flat_hash_map<std::string, Requests> requests_;  // by tenant
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_RENDEZVOUS_H_
