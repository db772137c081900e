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
// OWNER: the daemon. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_RENDEZVOUS_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_RENDEZVOUS_H_

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/random.h"
#include "base/ready_list.h"
#include "proto/unique_id.h"
#include "service/communicator/links/peer_link.h"
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
// Requested rosters that are sent at once, of all rendezvous; others wait.
inline constexpr int kMaxRostersAtOnce = 16;

class Rendezvous {
 public:
  Rendezvous(Random& random, const Clock& clock, Log& log)
      : random_(random), clock_(clock), log_(log) {}

  // Creates an id for `tenant`, with its rendezvous here. `advertised`: where other daemons connect
  // to this one.
  wire::UniqueId MakeId(const Endpoint& advertised, const std::string& tenant);
  // Registers an id that was derived elsewhere (NCCL_COMM_ID), with its rendezvous here.
  void Register(const wire::UniqueId& id, const std::string& tenant);

  // The secret of a pending rendezvous, for the handshake; nothing if there is none for `id`.
  std::optional<Secret> SecretOf(CommId id) const;

  // Takes a daemon that has proven to know the secret of rendezvous `id`.
  void Accept(CommId id, std::unique_ptr<Connection> connection);

  // Returns true if anything moved.
  bool Poll();
  // The next time at which Poll has work even if nothing arrives; never if there is none.
  MonotonicNs NextDeadline() const;

  // Number of ids whose ranks have not all joined.
  size_t pending_rendezvous() const { return pending_rendezvous_.size(); }

 private:
  // An authenticated daemon and the ranks that it has registered so far.
  struct JoiningHost final : ReadyList::Member {
    JoiningHost(ReadyList& ready, std::unique_ptr<PeerLink> l)
        : Member(ready), link(std::move(l)) {}
    void Send(const peer::Message& message) {
      link->Send(message);
      if (!link->status().ok()) Wake();
    }
    std::unique_ptr<PeerLink> link;
    std::string name;
    Endpoint endpoint;
    cluster::Position position;
    std::map<int, peer::Join> ranks;
    bool notified = false;  // of the roster, which another host forwards to it
    std::list<JoiningHost>::iterator place;
  };
  struct PendingRendezvous {
    Secret secret{};
    bool guessable = false;
    std::string creator;                 // the tenant that asked for the id
    std::list<CommId>::iterator unused;  // valid while no rank has joined
    int ranks = 0;                       // size; known from the first join, like the names
    std::string tenant, comm_name;
    ReadyList ready;  // of joining_hosts
    std::list<JoiningHost> joining_hosts;
    absl::flat_hash_map<int, const JoiningHost*> joined;  // by rank
    std::shared_ptr<const peer::Message> roster;          // when all have joined
    size_t reported_joined = 0;   // joined.size() at the last report of missing ranks
    MonotonicNs next_report = 0;  // time of the next report, if joined has changed
    bool over = false;
  };
  // A link whose last message may still be in flight.
  struct ClosingLink final : ReadyList::Member {
    enum class State : uint8_t { kIdle, kRequested, kSending };
    ClosingLink(ReadyList& ready, std::unique_ptr<PeerLink> l) : Member(ready), link(std::move(l)) {
      link->SetWaker(this);
    }
    std::unique_ptr<PeerLink> link;
    MonotonicNs until = 0;
    std::shared_ptr<const peer::Message> roster;  // that the host was only notified of
    State state = State::kIdle;                   // of `roster`
    std::list<ClosingLink>::iterator place;
  };

  bool PollRendezvous(CommId id, PendingRendezvous& rendezvous);
  void HandleJoin(CommId id, PendingRendezvous& rendezvous, JoiningHost& joining_host,
                  const peer::Join& join);
  absl::Status CheckJoin(const PendingRendezvous& rendezvous, const JoiningHost& joining_host,
                         const peer::Join& join) const;
  // Rejects one host that has not registered a rank; its link is null afterwards. Any tenant can
  // guess an id from NCCL_COMM_ID, and must not end another tenant's rendezvous.
  void RejectHost(JoiningHost& joining_host, const absl::Status& why);
  void SendMissing(PendingRendezvous& rendezvous);
  void SendRoster(CommId id, PendingRendezvous& rendezvous);
  void RejectRendezvous(CommId id, PendingRendezvous& rendezvous, const absl::Status& why);
  // Reads a host's messages; true if it has ended.
  bool PollHost(CommId id, PendingRendezvous& rendezvous, JoiningHost& joining_host, bool& moved);
  void CloseLater(std::unique_ptr<PeerLink> link, std::shared_ptr<const peer::Message> roster);
  bool PollClosingLinks();
  void ReadClosingLink(ClosingLink& closing);
  void SendRequestedRosters();

  Random& random_;
  const Clock& clock_;
  Log& log_;
  absl::flat_hash_map<CommId, std::unique_ptr<PendingRendezvous>> pending_rendezvous_;
  std::set<CommId> active_rendezvous_;               // those with at least one host
  std::map<std::string, std::list<CommId>> unused_;  // the others by tenant, oldest first
  ReadyList closing_ready_;                          // of closing_links_
  std::list<ClosingLink> closing_links_;
  MonotonicNs next_close_ = kNever;  // not later than the first ClosingLink::until
  size_t requested_ = 0;             // closing links in kRequested and kSending
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_RENDEZVOUS_H_
