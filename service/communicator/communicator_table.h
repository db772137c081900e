// All communicators of a daemon. Ranks, peers and lanes look up theirs here.
//
// Tenants share the turns (turn_queue.h), and a turn of the table is bounded (turn_cost.h). Most
// communicators are idle (libraries split one for every group of ranks), so an idle one costs
// nothing. A communicator gets a turn only when it is woken, is at work, waits for a ready word, or
// reaches its deadline. Thousands may close at once: a closed one leaves the indices immediately
// and is destroyed in a later turn.
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
#include "service/communicator/membership/rendezvous.h"
#include "service/communicator/membership/tree_relay.h"
#include "service/communicator/turns/turn_cost.h"
#include "service/communicator/turns/turn_queue.h"
#include "service/transport/handshake.h"
#include "service/transport/peer_listener.h"

namespace mccs {

// Of a tenant per round: one communicator's turn with as many small operations as it may start in
// one. With less, no tenant would pay for a whole turn; with more, a tenant with one
// communicator could not use it.
inline constexpr int64_t kTenantQuantum = kTurnCost + OperationLoop::kOperationsPerTurn * kCallCost;

class CommunicatorTable {
 public:
  // LIFETIME: all arguments outlive the table.
  CommunicatorTable(const CommunicatorEnvironment& environment, Rendezvous& rendezvous,
                    TreeRelay& relay)
      : env_(environment), rendezvous_(rendezvous), relay_(relay) {}

  // A local rank joins the communicator of its unique id; see Communicator::AddRank. Errors:
  // kFailedPrecondition for an id that was already used, kPermissionDenied for one of another
  // tenant, kResourceExhausted if a new communicator exceeds the tenant's quota or
  // share.
  // LIFETIME: the communicator, until it has released every port.
  absl::StatusOr<Communicator*> Join(const JoinRequest& request, RankPort* port);

  // For the daemon's listener (SecretLookup): the secret that belongs to the preamble; nothing
  // while it may still become known.
  absl::StatusOr<std::optional<Secret>> SecretFor(const Preamble& preamble) const;
  // Communicators whose SecretFor result may have changed since the last call.
  std::vector<CommId> TakeChanged() { return std::exchange(changed_, {}); }
  // Takes a peer that has authenticated itself.
  void Accept(Peer peer);

  // Limit of traces that run at the same time.
  static constexpr size_t kMaxTraces = 4;

  // One turn. Returns true if anything moved or another turn is needed at once.
  bool Poll();

  Urgency urgency() const;
  MonotonicNs NextDeadline() const;
  // The device holds no memory of a tenant.
  bool quiescent() const;
  // Without closed ones.
  size_t size() const { return entries_.size(); }
  // Each turn destroys n / kTurnsOfBacklog of n closed communicators, so that a backlog shrinks,
  // but at least and at most these numbers.
  static constexpr size_t kDestroyedPerTurn = 2;
  static constexpr size_t kMaxDestroyedPerTurn = 8;
  static constexpr size_t kTurnsOfBacklog = 64;
  // Assigns the communicators to the Tenants of the daemon's ledger, which have changed.
  void TenantsChanged();
  // Writes the state of the communicator after cursor `after` (0: of the first). Returns its
  // cursor, from 1 on; nothing after the last one.
  std::optional<uint64_t> WriteNextState(uint64_t after, state::Communicator* out) const;
  // Engine turns of this communicator; 0 if the id is unknown.
  uint64_t TurnsOf(CommId id) const;

 private:
  // Local ranks join by this key. For an id made from a host name, processes may differ in the
  // address that they resolved (wire::UniqueId::resolved).
  struct JoinKey {
    explicit JoinKey(const JoinRequest& request);
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
  // A communicator's own part of the host's budget, without its lanes and plans.
  struct Shares {
    explicit Shares(const std::shared_ptr<TenantResources>& budget)
        : communicator(budget, Resource::kCommunicators),
          forming(budget, Resource::kForming),
          link(budget, Resource::kDescriptors) {}
    absl::Status Take();
    void ReturnAll() {
      communicator.ReturnAll();
      forming.ReturnAll();
      link.ReturnAll();
    }
    BudgetShare communicator;
    BudgetShare forming;  // until it is complete, or has failed
    BudgetShare link;     // to the rendezvous, then to the leader
  };
  struct Entry final : TurnQueue::Participant {
    // REQUIRES: the first rank's account has admitted a communicator. ReturnAccount returns it.
    Entry(TurnQueue& turns, const CommunicatorEnvironment& environment, const JoinRequest& first,
          Shares own_shares, uint64_t n)
        : Participant(turns, TenantOf(first)),
          number(n),
          join_key(first),
          account(first.account),
          shares(std::move(own_shares)),
          communicator(environment, first, *this) {}
    ~Entry() { ReturnAccount(); }
    void ReturnAccount() {
      if (account != nullptr) account->ReleaseCommunicator();
      account.reset();
      shares.ReturnAll();
    }
    const uint64_t number;
    const JoinKey join_key;
    std::shared_ptr<TenantAccount> account;
    Shares shares;
    Communicator communicator;
    // As of the end of its last turn; by_id_ and running_ index this value.
    Communicator::Reachability reachability = communicator.reachability();
  };
  using Entries = std::map<uint64_t, Entry*>;  // by number: the oldest first

  // Whose share of the turns a communicator gets: its operator's Tenant, or the daemon's tenant.
  static const std::string& TenantOf(const JoinRequest& first) {
    return first.account != nullptr ? first.account->name() : first.tenant;
  }

  static Entry& EntryOf(TurnQueue::Participant& participant) {
    return static_cast<Entry&>(participant);
  }
  Communicator* FindRunning(CommId id) const;
  // Another communicator here has the same id.
  bool HasDuplicateId(const Communicator& communicator) const;
  Entry& Add(const JoinRequest& request, Shares shares);
  // Adds its current keys to the indices and removes stale ones.
  void AddToIndex(Entry& entry);
  void RemoveFromIndex(Entry& entry);
  void UpdateIndex(Entry& entry, const Communicator::Reachability& reachability);
  static void Drop(absl::flat_hash_map<CommId, Entries>& index, CommId id, const Entry& entry);
  // Costs of the communicator and the device to the engine so far, without the turns as such.
  int64_t CostOf(const Communicator& communicator) const;
  // Returns true if anything moved.
  bool GiveTurn(Entry& entry, std::vector<SplitResult>& results);
  // Adds ranks to the communicators that splits created.
  void JoinSplitRanks(const std::vector<SplitResult>& results);
  void Close(const Entry& entry);
  // Passes the controller's proposals and rate limits to the communicators.
  bool TakeUpdates();
  // A trace that an operator has requested.
  struct RunningTrace {
    uint64_t request_id = 0;
    uint64_t number = 0;  // of the Entry
    std::unique_ptr<OperationTrace> trace;
  };
  void OnTraceOrder(const TraceOrder& order);
  absl::Status StartTrace(const TraceOrder& order);
  // Sends the result of a trace that has ended.
  void EndTrace(const RunningTrace& trace, const char* why);
  // Returns true if any trace has ended.
  bool PollTraces();

  const CommunicatorEnvironment& env_;
  Rendezvous& rendezvous_;
  TreeRelay& relay_;
  TurnQueue turns_{kTenantQuantum};
  std::map<uint64_t, std::unique_ptr<Entry>> entries_;  // by number
  absl::flat_hash_map<JoinKey, Entry*> joinable_;  // still joinable, or were until their next turn
  absl::flat_hash_map<CommId, Entries> by_id_;     // by the ranks' id and by the roster's id
  absl::flat_hash_map<CommId, Entries> running_;   // by id: no longer joinable
  std::deque<std::unique_ptr<Entry>> closed_;      // not yet destroyed
  uint64_t last_number_ = 0;
  std::deque<CommId> ended_;                      // recently ended, newest last
  absl::flat_hash_map<CommId, int> times_ended_;  // occurrences in ended_
  std::vector<CommId> changed_;
  std::vector<RunningTrace> traces_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_TABLE_H_
