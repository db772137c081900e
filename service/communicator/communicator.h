// One communicator on this host: from the first local rank that joins to the last that leaves.
//
//   kJoining ──roster──► kLinking ──strategy──► kOpening ──all hosts ready──► kActive
//      │                    │                      │                            │
//      └────────────────────┴──────────────────────┴──── any error ─────────────┤
//                                                                               ▼
//   kClosed ◄── every local rank has left, nothing in flight ──────────────  kFailed
//
// A rank leaves by Destroy, Abort or the death of its process. Its departure has a number: the last
// operation that it took part in. Operations up to it complete; the first one after it fails the
// communicator on every rank, with the reason.
//
// OWNER: CommunicatorTable. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_H_
#define MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "proto/unique_id.h"
#include "service/communicator/controller_link.h"
#include "service/communicator/dial.h"
#include "service/communicator/joining.h"
#include "service/communicator/lane_set.h"
#include "service/communicator/operation_loop.h"
#include "service/communicator/rank_port.h"
#include "service/communicator/star.h"
#include "topology/position.h"

namespace mccs {

// What all communicators of a daemon share. LIFETIME: outlives them.
struct CommunicatorEnvironment {
  PeerAccess access;
  Transport* transport = nullptr;
  Device* device = nullptr;
  ControllerLink* controller = nullptr;
  Log* log = nullptr;
  Position position;   // of this host
  Endpoint endpoint;   // where peers reach this daemon
  int channels = 1;    // of the default strategy
  LaneShape lanes;     // likewise
  uint32_t skew = 1;   // likewise
};

// A rank that asks to join.
struct JoinRequest {
  wire::UniqueId id{};
  std::string tenant;
  std::string name;
  int ranks = 0;
  peer::RankInfo rank;
  int64_t timeout_ns = 0;  // 0: wait on
};

// How the engine may wait for this communicator.
enum class Urgency : uint8_t {
  kSleep,    // until a byte or a doorbell
  kBackOff,  // a GPU will write a word and ring no bell
  kSpin,     // work is running
};

class Communicator {
 public:
  enum class State : uint8_t { kJoining, kLinking, kOpening, kActive, kFailed, kClosed };

  Communicator(const CommunicatorEnvironment& environment, const JoinRequest& first);

  // One more local rank; `port` hears InitDone. REQUIRES: state() is kJoining.
  void AddRank(const JoinRequest& request, RankPort* port);
  // The rank goes; LetGo() tells `port` when it is free, perhaps at once.
  void Leave(RankPort* port, const std::string& why);

  void AcceptMember(std::unique_ptr<Connection> connection);
  void AcceptLane(const Preamble& preamble, std::unique_ptr<Connection> connection);

  // True when anything moved.
  bool Poll();

  State state() const { return state_; }
  // The id that ranks brought; other ranks of this host join by it.
  CommId unique_id() const { return CommId(unique_id_.comm_id); }
  // The communicator's name among daemons, from the roster on.
  CommId id() const { return id_; }
  const Secret& secret() const { return secret_; }
  const std::string& tenant() const { return tenant_; }
  Urgency urgency() const;
  // When Poll has something to do though nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  struct Departure {
    Rank rank;
    uint64_t after = 0;
    std::string why;
  };

  bool PollJoining();
  bool PollLinking();
  bool PollOpening();
  bool PollActive();
  bool PollStar();
  bool PollClosing();
  void Hear(const StarMessage& message);
  void HearDeparture(HostIndex from, const peer::Departed& departed);

  void TakeRoster(peer::Roster roster);
  void Announce();
  void ChooseStrategy(const Strategy& strategy);
  void OpenLanes(const Strategy& strategy);
  void TellReady();
  void Activate();

  void Fail(const absl::Status& why, bool tell_others = true);
  void Depart(LocalRank& local, const std::string& why);
  absl::Status CheckDepartures() const;
  void LetGoOfTheLeaving();
  void Report(bool now);
  Strategy DefaultStrategy() const;
  CommunicatorInfo Info() const;
  std::string HostName(HostIndex host) const;
  std::string DescribeHosts(const std::vector<HostIndex>& hosts) const;

  const CommunicatorEnvironment& env_;
  const wire::UniqueId unique_id_;
  const std::string tenant_;
  Secret secret_{};
  State state_ = State::kJoining;
  CommId id_;

  std::vector<LocalRank> locals_;         // by LocalIndex from the roster on
  std::vector<RankPort*> leaving_;        // asked to leave, not let go yet
  MonotonicNs init_deadline_;
  int64_t init_timeout_ns_ = 0;
  std::unique_ptr<Joining> joining_;

  peer::Roster roster_;
  Layout layout_;
  HostIndex self_;
  std::unique_ptr<Star> star_;
  MonotonicNs state_deadline_ = 0;   // of kLinking and kOpening
  MonotonicNs proposal_deadline_ = 0;  // leader: until when the controller may answer; 0: not asked
  int ready_hosts_ = 0;              // leader: members that have all lanes
  bool told_ready_ = false;
  std::optional<Strategy> strategy_;
  std::unique_ptr<LaneSet> lanes_;
  std::unique_ptr<OperationLoop> loop_;
  std::vector<Departure> departures_;
  absl::Status failure_;

  MonotonicNs next_report_ = 0;
  uint64_t reported_operations_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_COMMUNICATOR_H_
