// Forms a communicator on one host: its ranks join those of other hosts, the hosts open control
// links, and the lanes of the leader's strategy are opened.
//
//   kJoining ──roster──► kLinking ──strategy──► kOpening ──all hosts ready──► kFormed
//
// The roster comes from the rendezvous (joining.h), or is already known (JoinRequest::roster). The
// strategy comes from the leader (strategy_spread.h). The results are stored in the Formation,
// which the communicator keeps.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_FORMING_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_FORMING_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/communicator/lanes/communicator_lanes.h"
#include "service/communicator/links/star.h"
#include "service/communicator/membership/communicator_environment.h"
#include "service/communicator/membership/joining.h"
#include "service/communicator/membership/membership.h"
#include "service/communicator/membership/strategy_spread.h"

namespace mccs {

struct Formation {
  Log* log = nullptr;                 // of the communicator
  CommId id;                          // the communicator's id among daemons, from the roster on
  Secret key{};                       // of its daemons, from the roster on
  std::optional<Membership> members;  // from kLinking on, with the star
  std::unique_ptr<Star> star;
  std::string counted_as;            // for whom the relayed bytes count
  std::string cgroup;                // of the first process; empty: unknown
  std::optional<RateLimits> limits;  // from the controller, until lanes exist
  std::optional<Strategy> proposal;  // from the controller, until the leader has chosen
  std::optional<Strategy> strategy;  // from kOpening on, with the lanes: the current one
  std::unique_ptr<CommunicatorLanes> lanes;
  std::shared_ptr<TenantCounters> counters;  // of its tenant
  std::shared_ptr<TenantResources> budget;   // likewise; null: not limited
  int64_t cost = 0;                          // of forming (turn_cost.h)
};

class Forming {
 public:
  enum class State : uint8_t { kJoining, kLinking, kOpening, kFormed };

  // `first`: the rank that makes this host take part; it must still Join. `waker`: of the owner
  // that polls this and later the formation. LIFETIME: all arguments outlive this.
  Forming(const CommunicatorEnvironment& environment, const JoinRequest& first,
          Formation& formation, Waker& waker);

  // This host stops taking part; other hosts that wait for it receive the reason.
  void Withdraw(const absl::Status& why) {
    if (joining_ != nullptr) joining_->Withdraw(why);
  }
  // After Withdraw: true when this object may be destroyed. Call again when bytes arrive and at
  // WithdrawalDeadline(). If the roster arrived before the withdrawal, the formation has members
  // and star, and the caller must notify the other hosts over the star; otherwise the rendezvous
  // has notified them.
  bool WithdrawalDone();
  MonotonicNs WithdrawalDeadline() const {
    return joining_ != nullptr ? joining_->NextDeadline() : 0;
  }

  // Adds a local rank. If it contradicts the other local ranks, Poll fails with the reason.
  // REQUIRES: state() is kJoining.
  void Join(const JoinRequest& request);

  // Returns true if anything moved. An error: the communicator cannot form.
  absl::StatusOr<bool> Poll();
  // Handles a message of another host about forming (star_protocol.h). kDataLoss: invalid message.
  absl::Status OnMessage(const StarMessage& received);

  // The answer that this host needs before it may report that it is ready, for an error message;
  // empty: nothing. Initially it may not.
  void SetMissingLocals(std::string missing) { missing_locals_ = std::move(missing); }

  State state() const { return state_; }
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  absl::StatusOr<bool> PollJoining();
  absl::StatusOr<bool> PollLinking();
  absl::StatusOr<bool> PollOpening();
  // An error: a host that has no control link yet and this one do not reach each other.
  absl::Status CheckReachable();
  absl::Status TakeRoster(peer::Roster roster);
  // From the rendezvous or a forwarder; forwards it if it is valid.
  absl::Status TakeReceivedRoster(std::string serialised);
  absl::Status TakeKnownRoster();
  // Checks that the rank's description of the communicator agrees with the other local ranks.
  absl::Status CheckAgreement(const JoinRequest& request) const;
  absl::StatusOr<bool> ChooseStrategy();
  // From the leader or a forwarder; forwards it if it is valid.
  absl::Status TakeReceivedStrategy(std::string serialised);
  absl::StatusOr<Transport*> ChooseTransport() const;
  absl::Status OpenLanes(const Strategy& strategy);
  absl::Status SendReady();
  absl::Status OnReady(HostIndex host);
  MonotonicNs Now() const { return env_.access.clock->Now(); }

  const CommunicatorEnvironment& env_;
  Formation& formation_;
  Waker& waker_;
  const Secret secret_;  // of the unique id
  State state_ = State::kJoining;

  std::unique_ptr<Joining> joining_;  // in kJoining, unless the roster is known
  std::shared_ptr<const peer::Roster> known_roster_;
  RosterExpectation expected_;
  absl::Status disagreement_;  // between local ranks
  MonotonicNs init_deadline_;
  int64_t init_timeout_ns_ = 0;

  MonotonicNs state_deadline_ = 0;     // of kLinking and kOpening
  MonotonicNs reachable_at_ = 0;       // in kLinking: the next CheckReachable
  MonotonicNs others_deadline_ = 0;    // likewise: how long it lets others link first
  MonotonicNs proposal_deadline_ = 0;  // leader: how long to wait for the controller; 0: not asked
  std::optional<StrategyReceiver> receiver_;  // member: in kLinking
  std::optional<StrategySource> source_;      // leader: in kOpening
  std::vector<bool> ready_;                   // leader: by HostIndex: all lanes open
  int ready_count_ = 0;
  std::optional<std::string> missing_locals_;  // none: not known yet
  bool ready_sent_ = false;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_FORMING_H_
