// All communicators of a daemon, and the place where ranks, peers and lanes find theirs.
//
// Idle ones are many (libraries split one for every group of ranks), so they cost nothing: a
// communicator gets a turn when it has been woken (by a rank, by a stream of its own), is at work
// or waits for a ready word, or when its deadline has come.
//
// OWNER: the daemon. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_TABLE_H_
#define MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_TABLE_H_

#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/communicator/communicator.h"
#include "service/communicator/gone_port.h"
#include "service/communicator/rendezvous.h"
#include "service/communicator/turn_queue.h"
#include "service/transport/handshake.h"
#include "service/transport/peer_listener.h"

namespace mccs {

class CommunicatorTable {
 public:
  // LIFETIME: `environment` and `rendezvous` outlive the table.
  CommunicatorTable(const CommunicatorEnvironment& environment, Rendezvous& rendezvous)
      : env_(environment), rendezvous_(rendezvous) {}

  // A local rank joins the communicator of its unique id; `port` hears InitDone. An id that was
  // used up before is kFailedPrecondition, one of another tenant kPermissionDenied; one that is new
  // here and more than its Tenant may have kResourceExhausted.
  // LIFETIME: the communicator until it has let go of every port.
  absl::StatusOr<Communicator*> Join(const JoinRequest& request, RankPort* port);

  // For the daemon's door (SecretLookup): the secret of what a peer names; nothing when it may
  // still become known.
  absl::StatusOr<std::optional<Secret>> SecretFor(const Preamble& preamble) const;
  // Communicators of which SecretFor may say something else than when this was called last.
  std::vector<CommId> TakeChanged() { return std::exchange(changed_, {}); }
  // A peer that has proven itself.
  void Accept(Peer peer);

  // One turn. True when anything moved, or somebody wants another turn at once.
  bool Poll();

  Urgency urgency() const;
  MonotonicNs NextDeadline() const;
  // No memory of a tenant is in the device's hands.
  bool quiescent() const;
  size_t size() const { return entries_.size(); }
  // Tells of the communicator that came next after the one that `after` stands for; 0: of the
  // first. What stands for it, from 1 on; nothing: there are no more.
  std::optional<uint64_t> TellNext(uint64_t after, state::Communicator* out) const;
  // Turns that the communicator has had so far; 0 if there is none of that id.
  uint64_t TurnsOf(CommId id) const;

 private:
  struct Entry final : TurnQueue::Taker {
    // REQUIRES: a communicator was taken from the first rank's account, which has it back with the end.
    Entry(TurnQueue& turns, const CommunicatorEnvironment& environment, const JoinRequest& first,
          uint64_t n)
        : Taker(turns),
          number(n),
          account(first.account),
          communicator(environment, first, *this) {}
    ~Entry() {
      if (account != nullptr) account->GiveCommunicator();
    }
    const uint64_t number;
    const std::shared_ptr<TenantAccount> account;
    Communicator communicator;
    Communicator::Reach reach = communicator.reach();  // behind its last turn
  };

  static Entry& EntryOf(TurnQueue::Taker& taker) { return static_cast<Entry&>(taker); }
  Communicator* FindRunning(CommId id) const;
  // Another one here has its id.
  bool IsTaken(const Communicator& communicator) const;
  // True when anything moved.
  bool GiveTurn(Entry& entry, std::vector<Seat>& seats);
  // Brings the ranks of splits to their communicators.
  void Place(const std::vector<Seat>& seats);
  void Forget();
  // What the controller would like is told to whom it concerns.
  bool TakeProposals();
  bool TakePaces();

  const CommunicatorEnvironment& env_;
  Rendezvous& rendezvous_;
  GonePort gone_;
  TurnQueue turns_;
  std::vector<std::unique_ptr<Entry>> entries_;  // by number
  uint64_t last_number_ = 0;
  std::deque<CommId> ended_;  // the last ones, the newest at the back
  std::vector<CommId> changed_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_TABLE_H_
