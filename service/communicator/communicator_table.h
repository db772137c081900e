// All communicators of a daemon, and the place where ranks, peers and lanes find theirs.
//
// OWNER: the daemon. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_TABLE_H_
#define MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_TABLE_H_

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "service/communicator/communicator.h"
#include "service/communicator/gone_port.h"
#include "service/communicator/rendezvous.h"
#include "service/transport/handshake.h"
#include "service/transport/peer_listener.h"

namespace mccs {

class CommunicatorTable {
 public:
  // LIFETIME: `environment` and `rendezvous` outlive the table.
  CommunicatorTable(const CommunicatorEnvironment& environment, Rendezvous& rendezvous)
      : env_(environment), rendezvous_(rendezvous) {}

  // A local rank joins the communicator of its unique id; `port` hears InitDone. An id that was
  // used up before is kFailedPrecondition, one of another tenant kPermissionDenied.
  // LIFETIME: the communicator until it has let go of every port.
  absl::StatusOr<Communicator*> Join(const JoinRequest& request, RankPort* port);

  // Tells that a rank of `communicator` has posted something: it gets a turn.
  void Kick(Communicator* communicator);

  // For the daemon's door (SecretLookup): the secret of what a peer names; nothing when it may
  // still become known.
  absl::StatusOr<std::optional<Secret>> SecretFor(const Preamble& preamble) const;
  // A peer that has proven itself.
  void Accept(Peer peer);

  // One turn. `network_moved`: some connection is ready, so that idle communicators must look too.
  // True when anything moved.
  bool Poll(bool network_moved);

  Urgency urgency() const;
  MonotonicNs NextDeadline() const;
  // No memory of a tenant is in the device's hands.
  bool quiescent() const;
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::unique_ptr<Communicator> communicator;
    bool kicked = true;
  };
  Communicator* FindRunning(CommId id) const;
  // Brings the ranks of splits to their communicators.
  void Place(const std::vector<Seat>& seats);
  void Forget();

  const CommunicatorEnvironment& env_;
  Rendezvous& rendezvous_;
  GonePort gone_;
  std::vector<Entry> entries_;
  std::deque<CommId> ended_;  // the last ones, the newest at the back
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_TABLE_H_
