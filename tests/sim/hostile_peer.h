// A hostile rendezvous, leader and peer daemon. It has the secret of a communicator whose other
// ranks are on honest daemons, and implements the daemons' protocols itself (handshake.h,
// peer.proto, stream_lane.h). Up to a stage that its seed selects it behaves correctly, so that
// attacks meet every state of the other daemons; after that it attacks at random. Where the honest
// daemons have certificates, it is either a daemon of the cluster, with a certificate of its own
// host, or a program without one, which must get no link and no lane.
//
//   honest daemon ── Join ──► rendezvous │
//                 ── Hello ─► leader     │ HostilePeer, at an address of its own
//                 ◄─ Hello ── member     │
//                 ◄─ slices ─► lanes     │
//
// THREAD: one, the world's.
#ifndef MCCS_TESTS_SIM_HOSTILE_PEER_H_
#define MCCS_TESTS_SIM_HOSTILE_PEER_H_

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "proto/peer.pb.h"
#include "service/communicator/links/peer_link.h"
#include "service/transport/handshake.h"
#include "service/transport/peer_listener.h"
#include "tests/sim/hostile_lane.h"
#include "tests/sim/hostile_messages.h"
#include "tests/sim/random_counts.h"
#include "tests/sim/sim_world.h"

namespace mccs {

// Elements of float32 in each valid message.
inline constexpr uint64_t kHostileMessageElements = 64;

struct HostilePeerOptions {
  std::string address;
  uint64_t seed = 1;
  CommId id;
  Secret secret{};
  std::string tenant;
  PeerSecurity* security = nullptr;  // null: it has no certificate
  // Of each host that it plays. With a certificate of the cluster: the host's.
  std::string host = "liar";
  bool must_fail = false;  // the honest daemons must accept nothing from it
  int ranks = 0;
  // The honest daemons with ranks of the communicator, and these ranks.
  struct Daemon {
    std::string name;
    Endpoint endpoint;
    std::vector<int> ranks;
  };
  std::vector<Daemon> daemons;
  // The ranks of each host that the HostilePeer plays.
  std::vector<std::vector<int>> played;
  std::optional<Endpoint> rendezvous;   // absent: this is the rendezvous
  std::vector<Endpoint> world_daemons;  // all daemons of the world
  std::string foreign_pattern;          // content of other tenants' memory
};

class HostilePeer final : public SimParticipant {
 public:
  // LIFETIME: `world` and `counts` outlive this.
  HostilePeer(SimWorld& world, HostilePeerOptions options, RandomCounts& counts);

  bool Poll() override;
  MonotonicNs NextEvent() const override;
  // Closes all connections.
  void Leave();

  // Whether it received bytes of other tenants' memory.
  bool has_foreign_bytes() const { return has_foreign_bytes_; }
  // Whether any handshake with an honest daemon succeeded.
  bool had_connection() const { return had_connection_; }

 private:
  enum class Stage : uint8_t { kRendezvous, kOpening, kRunning };
  // The stage from which on it attacks; kRunning is the most likely.
  static constexpr Stage kStages[] = {Stage::kRendezvous, Stage::kOpening, Stage::kRunning,
                                      Stage::kRunning, Stage::kRunning};
  enum class Role : uint8_t {
    kGuest,    // a daemon that joins at this rendezvous
    kJoining,  // this joins at a daemon's rendezvous
    kMember,   // a daemon that this leads
    kLeader,   // a daemon that leads this
  };
  struct Link {
    Role role = Role::kGuest;
    int host = -1;  // roster index: of this, or of the daemon at the other end
    std::unique_ptr<PeerLink> link;
  };
  struct PendingDial {
    Preamble preamble;
    ClientHandshake handshake;
    int host = -1;
  };
  struct HalfOpen {
    std::unique_ptr<Connection> connection;
    std::string unsent;
  };

  void Count(RandomEvent event) { counts_.Add(event); }
  uint64_t Below(uint64_t limit) { return dice_() % limit; }
  bool ShouldAttack() { return stage_ >= attacks_from_ && Below(2) == 0; }
  bool MayAct() const { return actions_left_ > 0 && stage_ >= attacks_from_; }

  bool PollArrivals();
  bool PollDials();
  bool PollLinks();
  bool PollLanes();
  void Begin(const Preamble& preamble, std::unique_ptr<Connection> connection);
  // Of the ranks before a roster, of the daemons with one.
  Secret SecretFor(const Preamble& preamble) const;
  void Dial(const Preamble& preamble, const Endpoint& to, int host);

  // Formation of the communicator (hostile_peer.cc).
  void Join();
  void OnMessage(Link& link, const peer::Message& message);
  void OnGuestMessage(const peer::Message& message);
  void OnRoster(const peer::Roster& roster);
  void OnMemberMessage(Link& link, const peer::Message& message);
  void OnLeaderMessage(Link& link, const peer::Message& message);
  peer::Roster MakeRoster();
  void CorruptRoster(peer::Roster& roster);
  mccs::strategy::Strategy RandomStrategy(uint64_t epoch);
  void CorruptStrategy(mccs::strategy::Strategy& strategy);
  void AdoptStrategy(const mccs::strategy::Strategy& strategy);
  void OpenLanes(const mccs::strategy::Strategy& strategy);
  void OpenMessageLanes();
  // Number of home lanes of the communicator's messages.
  int HomeLanes() const;
  void StartRunning();
  void SendTo(Role role, const peer::Message& message);
  bool Plays(int host) const;
  Endpoint EndpointOf(int host) const;
  LaneShape ShapeOf(uint64_t epoch) const;

  // Its own actions (hostile_peer_actions.cc).
  using Action = void (HostilePeer::*)();
  void ChooseActions();
  void Act();
  Link* RandomLink();
  void SendRandomMessage();
  void RepeatCorrupted();
  void SendChangeStep();
  void SendOrderMessage();
  void DialInvalidLane();
  void DialWithoutRoster();
  void AttackLane();
  void SendRandomTag();
  void OpenHalfConnection();
  void OpenHalfConnections(uint64_t times);
  void Flood();
  void CutLaneOrLink();
  void AnswerChange(Link& link, const peer::StrategyChange& order);
  void AnswerSplit(Link& link, const peer::SplitCall& call);
  void TakeSlices(HostileLane& lane);
  void AnswerMessage(const HostileLane& lane, const MessageTag& tag);
  HostileLane* SendingLane(uint64_t epoch, ChannelId channel, int from, int to);

  SimWorld& world_;
  const HostilePeerOptions options_;
  RandomCounts& counts_;
  Network& network_;
  Dice dice_;
  SeededRandom random_;
  const std::unique_ptr<Log> log_ = MakeNullLog();
  std::unique_ptr<PeerListener> listener_;
  const Stage attacks_from_;
  Stage stage_ = Stage::kRendezvous;
  std::vector<Action> actions_;
  bool by_call_ = true;  // sends the steps of a change in order
  int actions_left_;
  MonotonicNs next_action_;
  bool has_left_ = false;

  std::list<PendingDial> pending_dials_;
  std::list<Link> links_;
  std::list<HostileLane> lanes_;
  std::vector<HalfOpen> half_open_;

  std::vector<peer::Join> joins_;  // of the daemons' ranks
  std::optional<peer::Roster> roster_;
  int leader_ = -1;
  int hellos_ = 0, readies_ = 0;
  std::map<uint64_t, mccs::strategy::Strategy> strategies_;  // by epoch
  uint64_t epoch_ = 0;                                       // last proposed epoch
  int step_ = 0;            // next step of the change that this leads
  size_t answers_ = 0;      // answers to the latest step
  uint64_t operation_ = 0;  // number that the daemons sent last
  std::deque<peer::Message> received_;
  bool has_foreign_bytes_ = false;
  bool had_connection_ = false;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_HOSTILE_PEER_H_
