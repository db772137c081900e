// Where the ranks of a communicator find each other: the daemon that made the unique id. It collects who
// has joined, tells the others who is missing, and when all are there sends every daemon the roster.
//
//   MakeId ─► kCollecting ──all ranks joined──► roster sent, meeting forgotten
//                  │
//                  └── a rank that cannot be (twice, out of range, another size, another tenant),
//                      or a daemon that leaves ──► refused with a text, meeting forgotten
//
// OWNER: the daemon. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_RENDEZVOUS_H_
#define MCCS_SERVICE_COMMUNICATOR_RENDEZVOUS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

// Ids that nobody has used yet are forgotten, the oldest first, beyond this many.
inline constexpr size_t kMaxMeetings = 65536;

class Rendezvous {
 public:
  Rendezvous(Random& random, const Clock& clock, Log& log)
      : random_(random), clock_(clock), log_(log) {}

  // A fresh id whose ranks will meet here. `advertised`: where other daemons reach this one.
  wire::UniqueId MakeId(const Endpoint& advertised);
  // An id that was derived elsewhere (NCCL_COMM_ID) and whose ranks shall meet here.
  void Adopt(const wire::UniqueId& id);

  // The secret of a meeting, for the handshake; nothing when no such meeting is open.
  std::optional<Secret> SecretOf(CommId id) const;

  // A daemon that proved to know the secret of meeting `id`.
  void Accept(CommId id, std::unique_ptr<Connection> connection);

  // True when anything moved.
  bool Poll();
  // When Poll has something to do even if no byte arrives; the far future when never.
  MonotonicNs NextDeadline() const;

 private:
  // One daemon that has joined.
  struct Guest {
    explicit Guest(std::unique_ptr<PeerLink> l) : link(std::move(l)) {}
    std::unique_ptr<PeerLink> link;
    std::string name, tenant, comm_name;
    Endpoint endpoint;
    peer::Position position;
    std::map<int, peer::RankInfo> ranks;
  };
  struct Meeting {
    Secret secret{};
    bool guessable = false;
    uint64_t born = 0;  // order of making
    int ranks = 0;      // size; known with the first join
    int joined = 0;
    std::vector<Guest> guests;
    MonotonicNs next_report = 0;  // when the guests hear next who is missing
    bool over = false;
  };

  bool PollMeeting(CommId id, Meeting& meeting);
  void Take(CommId id, Meeting& meeting, Guest& guest, const peer::Join& join);
  absl::Status CheckJoin(const Meeting& meeting, const Guest& guest, const peer::Join& join) const;
  void TellMissing(Meeting& meeting);
  void SendRoster(CommId id, Meeting& meeting);
  void Refuse(CommId id, Meeting& meeting, const absl::Status& why);
  void Forget();

  Random& random_;
  const Clock& clock_;
  Log& log_;
  uint64_t births_ = 0;
  std::map<CommId, Meeting> meetings_;
  // Links whose last message still waits to be sent.
  std::vector<std::unique_ptr<PeerLink>> farewells_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_RENDEZVOUS_H_
