// How a communicator comes into being on one host: its ranks meet those of other hosts, the hosts
// link up, and the lanes of the leader's strategy are opened.
//
//   kJoining ──roster──► kLinking ──strategy──► kOpening ──all hosts ready──► kFormed
//
// The roster comes from the rendezvous, or was known before (JoinRequest::roster).
//
// What it makes lies in the Formation, which the communicator goes on with.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_FORMING_H_
#define MCCS_SERVICE_COMMUNICATOR_FORMING_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/communicator/communicator_environment.h"
#include "service/communicator/communicator_lanes.h"
#include "service/communicator/joining.h"
#include "service/communicator/membership.h"
#include "service/communicator/star.h"

namespace mccs {

struct Formation {
  CommId id;                          // the communicator's name among daemons, from the roster on
  std::optional<Membership> members;  // from kLinking on, with the star
  std::unique_ptr<Star> star;
  std::string tenant;
  std::string cgroup;                // of the process that came first; empty: not known
  std::optional<Pace> pace;          // of the controller, until there are lanes
  std::optional<Strategy> proposal;  // of the controller, until the leader has chosen
  std::optional<Strategy> strategy;  // from kOpening on, with the lanes: the one in force
  std::unique_ptr<CommunicatorLanes> lanes;
  std::shared_ptr<TenantCounters> counters;  // of its tenant
};

class Forming {
 public:
  enum class State : uint8_t { kJoining, kLinking, kOpening, kFormed };

  // `first`: the rank that makes this host take part; it still has to Join. `waker`: of whoever
  // polls this, and the formation later. LIFETIME: all of them outlive this.
  Forming(const CommunicatorEnvironment& environment, const JoinRequest& first,
          Formation& formation, Waker& waker);

  // This host takes no further part; others that wait for it hear why.
  void Withdraw(const absl::Status& why) {
    if (joining_ != nullptr) joining_->Withdraw(why);
  }
  // After Withdraw: this may go. Ask again when bytes arrive, at PartBy() at last. The others have
  // been told, unless the roster came instead: then the formation has members and star, and they
  // wait to be told over it.
  bool Parted();
  MonotonicNs PartBy() const { return joining_ != nullptr ? joining_->NextDeadline() : 0; }

  // One more local rank. When it contradicts the other local ranks, Poll fails and says how.
  // REQUIRES: state() is kJoining.
  void Join(const JoinRequest& request);

  // True when anything moved. An error: the communicator cannot form.
  absl::StatusOr<bool> Poll();
  // What another host says about forming, in its turn (star_turns.h). kDataLoss: it makes no sense.
  absl::Status Hear(const StarMessage& heard);

  State state() const { return state_; }
  // When Poll has something to do though nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  absl::StatusOr<bool> PollJoining();
  absl::StatusOr<bool> PollLinking();
  absl::StatusOr<bool> PollOpening();
  absl::Status TakeRoster(peer::Roster roster);
  absl::Status TakeKnownRoster();
  // What the rank says of the communicator is what the others of this host said.
  absl::Status CheckAgreement(const JoinRequest& request) const;
  absl::StatusOr<bool> ChooseStrategy();
  absl::Status OpenLanes(const Strategy& strategy);
  absl::Status TellReady();
  absl::Status CountReady(HostIndex host);
  MonotonicNs Now() const { return env_.access.clock->Now(); }

  const CommunicatorEnvironment& env_;
  Formation& formation_;
  Waker& waker_;
  Secret secret_{};
  State state_ = State::kJoining;

  std::unique_ptr<Joining> joining_;  // in kJoining, unless the roster is known
  std::shared_ptr<const peer::Roster> known_roster_;
  RosterExpectation expected_;
  absl::Status disagreement_;  // of the local ranks
  MonotonicNs init_deadline_;
  int64_t init_timeout_ns_ = 0;

  MonotonicNs state_deadline_ = 0;     // of kLinking and kOpening
  MonotonicNs proposal_deadline_ = 0;  // leader: until when the controller may answer; 0: not asked
  std::vector<bool> ready_;            // leader: by HostIndex, who has all lanes
  bool told_ready_ = false;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_FORMING_H_
