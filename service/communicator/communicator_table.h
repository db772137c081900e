// All communicators of a daemon, and the place where ranks, peers and lanes find theirs.
//
// Idle ones are many (libraries split one for every group of ranks), so they cost nothing: a
// communicator gets a turn when it has been woken (by a rank, by a stream of its own), is at work
// or waits for a ready word, or when its deadline has come. Thousands may end at once: a closed one
// is found no more, and destroyed in a later turn, some in each.
//
// OWNER: the daemon. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_TABLE_H_
#define MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_TABLE_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  // Those that have closed are none of them.
  size_t size() const { return entries_.size(); }
  // Closed ones that a turn destroys, and more where many wait: each is destroyed within so many
  // times as many turns as they took to close.
  static constexpr size_t kDestroyedPerTurn = 2;
  static constexpr size_t kTurnsOfBacklog = 64;
  // Tells of the communicator that came next after the one that `after` stands for; 0: of the
  // first. What stands for it, from 1 on; nothing: there are no more.
  std::optional<uint64_t> TellNext(uint64_t after, state::Communicator* out) const;
  // Turns that the communicator has had so far; 0 if there is none of that id.
  uint64_t TurnsOf(CommId id) const;

 private:
  // What ranks of one host join by. Processes that looked a name up may differ in the address that
  // they found (wire::UniqueId::looked_up).
  struct JoinKey {
    JoinKey(const wire::UniqueId& id, const std::string& its_tenant);
    CommId id;
    bool guessable;
    Secret secret;
    std::string tenant;
    friend bool operator==(const JoinKey&, const JoinKey&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const JoinKey& key) {
      return H::combine(std::move(h), key.id, key.guessable, key.secret, key.tenant);
    }
  };
  struct Entry final : TurnQueue::Taker {
    // REQUIRES: a communicator was taken from the first rank's account, which has it back with Close.
    Entry(TurnQueue& turns, const CommunicatorEnvironment& environment, const JoinRequest& first,
          uint64_t n)
        : Taker(turns),
          number(n),
          join_key(first.id, first.tenant),
          account(first.account),
          communicator(environment, first, *this) {}
    ~Entry() { GiveBack(); }
    void GiveBack() {
      if (account != nullptr) account->GiveCommunicator();
      account.reset();
    }
    const uint64_t number;
    const JoinKey join_key;
    std::shared_ptr<TenantAccount> account;
    Communicator communicator;
    // Behind its last turn; by_id_ and running_ have it so.
    Communicator::Reach reach = communicator.reach();
  };
  using Entries = std::map<uint64_t, Entry*>;  // by number: the oldest first

  static Entry& EntryOf(TurnQueue::Taker& taker) { return static_cast<Entry&>(taker); }
  Communicator* FindRunning(CommId id) const;
  // Another one here has its id.
  bool IsTaken(const Communicator& communicator) const;
  Entry& Add(const JoinRequest& request);
  // Enters what is known of it, and takes out what no longer holds.
  void List(Entry& entry);
  void Unlist(Entry& entry);
  void Relist(Entry& entry, const Communicator::Reach& reach);
  static void Drop(absl::flat_hash_map<CommId, Entries>& index, CommId id, const Entry& entry);
  // True when anything moved.
  bool GiveTurn(Entry& entry, std::vector<Seat>& seats);
  // Brings the ranks of splits to their communicators.
  void Place(const std::vector<Seat>& seats);
  void Close(const Entry& entry);
  // What the controller would like is told to whom it concerns.
  bool TakeProposals();
  bool TakePaces();

  const CommunicatorEnvironment& env_;
  Rendezvous& rendezvous_;
  GonePort gone_;
  TurnQueue turns_;
  std::map<uint64_t, std::unique_ptr<Entry>> entries_;  // by number
  absl::flat_hash_map<JoinKey, Entry*> joinable_;       // or were, until another turn
  absl::flat_hash_map<CommId, Entries> by_id_;          // that ranks brought, and the roster's
  absl::flat_hash_map<CommId, Entries> running_;        // by id: that collect no ranks any more
  std::deque<std::unique_ptr<Entry>> closed_;           // not destroyed yet
  uint64_t last_number_ = 0;
  std::deque<CommId> ended_;                      // the last ones, the newest at the back
  absl::flat_hash_map<CommId, int> times_ended_;  // how often each is in ended_
  std::vector<CommId> changed_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_TABLE_H_
