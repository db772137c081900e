// Where the ranks of a communicator find each other: the daemon that made the unique id. It
// collects who has joined, tells the others who is missing, and when all are there sends every
// daemon the roster.
//
//   MakeId ─► kCollecting ──all ranks joined──► roster sent, meeting forgotten
//                  │
//                  └── a rank that cannot be (twice, out of range, another size, another tenant),
//                      or a daemon that gives up or leaves with ranks ──► refused with a text,
//                      meeting forgotten
//
// OWNER: the daemon. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_RENDEZVOUS_H_
#define MCCS_SERVICE_COMMUNICATOR_RENDEZVOUS_H_

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
#include "proto/unique_id.h"
#include "service/communicator/peer_link.h"
#include "service/transport/handshake.h"

namespace mccs {

// Ids of one tenant that nobody has used yet; beyond this many its oldest is forgotten.
inline constexpr size_t kMaxUnusedIdsPerTenant = 4096;
// Daemons that one meeting listens to.
inline constexpr size_t kMaxGuests = 8192;
// What a guest may say about one rank: nobody's names are longer.
inline constexpr size_t kMaxJoinBytes = 4096;
// How long a guest may take to read the last message of a meeting.
inline constexpr int64_t kMeetingFarewellNs = 10 * kNsPerSec;

class Rendezvous {
 public:
  Rendezvous(Random& random, const Clock& clock, Log& log)
      : random_(random), clock_(clock), log_(log) {}

  // A fresh id for `tenant`, whose ranks will meet here. `advertised`: where other daemons reach
  // this one.
  wire::UniqueId MakeId(const Endpoint& advertised, const std::string& tenant);
  // An id that was derived elsewhere (NCCL_COMM_ID) and whose ranks shall meet here.
  void Adopt(const wire::UniqueId& id, const std::string& tenant);

  // The secret of a meeting, for the handshake; nothing when no such meeting is open.
  std::optional<Secret> SecretOf(CommId id) const;

  // A daemon that proved to know the secret of meeting `id`.
  void Accept(CommId id, std::unique_ptr<Connection> connection);

  // True when anything moved.
  bool Poll();
  // When Poll has something to do even if no byte arrives; the far future when never.
  MonotonicNs NextDeadline() const;

  // Ids whose ranks have not all met.
  size_t meetings() const { return meetings_.size(); }

 private:
  // A daemon that has proven itself, and the ranks that it brought so far.
  struct Guest {
    explicit Guest(std::unique_ptr<PeerLink> l) : link(std::move(l)) {}
    std::unique_ptr<PeerLink> link;
    std::string name;
    Endpoint endpoint;
    cluster::Position position;
    std::map<int, peer::Join> ranks;
  };
  struct Meeting {
    Secret secret{};
    bool guessable = false;
    std::string maker;                   // the tenant that asked for the id
    std::list<CommId>::iterator unused;  // valid while nobody has come
    int ranks = 0;                       // size; known with the first join, as are the names
    std::string tenant, comm_name;
    std::list<Guest> guests;
    absl::flat_hash_map<int, const Guest*> joined;  // by rank
    size_t told_joined = 0;       // joined.size() when the guests last heard who is missing
    MonotonicNs next_report = 0;  // when they hear it next, if that has changed
    bool over = false;
  };
  struct Farewell {
    std::unique_ptr<PeerLink> link;
    MonotonicNs until = 0;
  };

  bool PollMeeting(CommId id, Meeting& meeting);
  void Take(CommId id, Meeting& meeting, Guest& guest, const peer::Join& join);
  absl::Status CheckJoin(const Meeting& meeting, const Guest& guest, const peer::Join& join) const;
  // Refuses one guest that has brought nobody; its link is null afterwards. Any tenant can guess an
  // id from NCCL_COMM_ID, and must not end the meeting of the tenant that it was made for.
  void TurnAway(Guest& guest, const absl::Status& why);
  void TellMissing(Meeting& meeting);
  void SendRoster(CommId id, Meeting& meeting);
  void Refuse(CommId id, Meeting& meeting, const absl::Status& why);
  bool PollFarewells();

  Random& random_;
  const Clock& clock_;
  Log& log_;
  absl::flat_hash_map<CommId, std::unique_ptr<Meeting>> meetings_;
  std::set<CommId> gathering_;                       // meetings to which somebody has come
  std::map<std::string, std::list<CommId>> unused_;  // the others by tenant, the oldest first
  std::vector<Farewell> farewells_;  // links whose last message may still be on its way
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_RENDEZVOUS_H_
