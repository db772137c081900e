// A host of a communicator that no production daemon serves: a tenant's own program, which has the
// communicator's secret and sends the messages that a test chooses. It is the rendezvous and the
// leader, or a member.
//
// THREAD: the world's.
#ifndef MCCS_TESTS_SIM_ROGUE_PEER_H_
#define MCCS_TESTS_SIM_ROGUE_PEER_H_

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "proto/strategy.pb.h"
#include "service/communicator/links/dial.h"
#include "service/communicator/links/peer_link.h"
#include "service/communicator/membership/membership.h"
#include "service/communicator/strategy/strategy.h"
#include "service/transport/peer_listener.h"
#include "tests/sim/sim_world.h"

namespace mccs {

// The leader's message with the first strategy.
inline peer::Message OpenWith(const Strategy& strategy) {
  strategy::Strategy serialised;
  ToProto(strategy, &serialised);
  peer::Message message;
  message.mutable_open()->set_strategy(serialised.SerializeAsString());
  return message;
}

// A communicator of two ranks, one on host 0 of the world and one on the rogue peer.
class RoguePeer {
 public:
  static constexpr char kAddress[] = "10.0.0.99";
  static constexpr uint16_t kPort = 7000;
  static constexpr char kName[] = "rogue";
  static constexpr LaneShape kShape{.slots = 4, .slot_bytes = 16u << 10};

  RoguePeer(SimWorld& world, SimTenant& victim) : world_(world), victim_(victim) {
    listener_ = std::make_unique<PeerListener>(
        std::move(*world_.network().HostNetwork(kAddress).Listen({kAddress, kPort})),
        [this](const Preamble&) { return std::optional<Secret>(secret_); }, random_, *log_);
  }

  // StartAsLeader: the victim is rank 1 and this is the leader. Join: the reverse. Both return once
  // the control link is up.
  bool StartAsLeader() {
    leads_ = true;
    id_ = MakeUniqueId(kAddress, kPort, 0x1a);
    rank_ = &victim_.Init(id_, 2, 1);
    return RunUntil(
        [&] { return control_link_ != nullptr && HasReceived(&peer::Message::has_hello); });
  }
  bool Join() {
    self_ = HostIndex(1);
    victim_.RequestUniqueId();
    if (!RunUntil([&] { return victim_.has_unique_id(); })) return false;
    id_ = victim_.unique_id();
    std::memcpy(secret_.data(), id_.secret, secret_.size());
    rank_ = &victim_.Init(id_, 2, 0);
    join_link_ = OpenLink(ConnectionPurpose::kJoin);
    if (join_link_ == nullptr) return false;
    peer::Message join;
    join.mutable_join()->set_ranks(2);
    join.mutable_join()->mutable_rank()->set_rank(1);
    join.mutable_join()->set_tenant(kTenant);
    join.mutable_join()->set_host(kName);
    join.mutable_join()->set_endpoint_host(kAddress);
    join.mutable_join()->set_endpoint_port(kPort);
    join.mutable_join()->mutable_gpu()->set_uuid("rogue");
    join_link_->Send(join);
    if (!RunUntil([&] { return HasReceived(&peer::Message::has_roster); })) return false;
    for (const peer::Message& message : received_) {
      peer::Roster roster;
      if (!message.has_roster() || !roster.ParseFromString(message.roster())) continue;
      secret_ = KeyOf(SecretOf(id_), roster);
      for (int h = 0; h < roster.hosts_size(); ++h) {
        if (roster.hosts(h).name() == kName) self_ = HostIndex(h);
      }
    }
    control_link_ = OpenLink(ConnectionPurpose::kMember);
    return control_link_ != nullptr;
  }
  // OpenLanes behaves correctly until the victim has all its lanes, Start until the victim is
  // active.
  bool OpenLanes() {
    if (leads()) {
      Send(OpenWith(MakeRingStrategy(Epoch(1), {HostIndex(0), HostIndex(1)})));
    } else {
      peer::Message hello;
      hello.mutable_hello()->set_host_index(self_.value());
      Send(hello);
      if (!RunUntil([&] { return HasReceived(&peer::Message::has_open); })) return false;
    }
    if (!OpenLane(1)) return false;
    return !leads() || RunUntil([&] { return HasReceived(&peer::Message::has_ready); });
  }
  bool Start() {
    peer::Message message;
    if (leads()) {
      message.mutable_go();
    } else {
      message.mutable_ready();
    }
    Send(message);
    return RunUntil([&] { return rank_->answered; }) &&
           rank_->status.error == wire::ErrorClass::kNone;
  }

  // Opens a lane into the victim and sends nothing on it.
  bool OpenLane(uint64_t epoch, int channel = 0) {
    auto lane = Open({.purpose = ConnectionPurpose::kLane,
                      .comm_id = CommId(id_.comm_id),
                      .epoch = Epoch(epoch),
                      .channel = ChannelId(channel),
                      .from_host = self_,
                      .to_host = victim_host()});
    if (lane == nullptr) return false;
    out_.push_back(std::move(lane));
    return true;
  }
  // The connection of the last opened lane, and of the last lane that the victim opened.
  Connection& out() { return *out_.back(); }
  Connection* in() { return in_.empty() ? nullptr : in_.back().get(); }

  void Send(const peer::Message& message) {
    control_link_->Send(message);
    RunFor(2 * kNsPerMs);
  }
  void RunFor(int64_t ns) {
    const MonotonicNs until = world_.clock().Now() + ns;
    while (world_.clock().Now() < until) {
      Poll();
      world_.RunFor(100 * kNsPerUs);
    }
    Poll();
  }
  bool RunUntil(const std::function<bool()>& done, int64_t limit_ns = 10 * kNsPerSec) {
    return world_.RunUntil(
        [&] {
          Poll();
          return done();
        },
        limit_ns);
  }
  void CloseAll() {
    control_link_.reset();
    join_link_.reset();
    out_.clear();
    in_.clear();
  }

  bool leads() const { return leads_; }
  HostIndex self() const { return self_; }
  HostIndex victim_host() const { return HostIndex(1 - self_.value()); }
  SimRank& rank() { return *rank_; }
  // The error of the victim's communicator; "" while it has not failed.
  std::string failure() const {
    if (!rank_->answered) return "";
    if (rank_->status.error != wire::ErrorClass::kNone) return rank_->status.text;
    return rank_->failed() ? rank_->failure() : "";
  }
  const std::vector<peer::Message>& received() const { return received_; }
  bool HasReceived(bool (peer::Message::*body)() const) const {
    for (const peer::Message& message : received_) {
      if ((message.*body)()) return true;
    }
    return false;
  }

  static constexpr char kTenant[] = "blue";

 private:
  void Poll() {
    for (Peer& peer : listener_->Poll(world_.clock().Now())) {
      if (peer.preamble.purpose == ConnectionPurpose::kLane) {
        in_.push_back(std::move(peer.connection));
        continue;
      }
      auto link = std::make_unique<PeerLink>(std::move(peer.connection));
      if (peer.preamble.purpose == ConnectionPurpose::kMember) {
        control_link_ = std::move(link);
        continue;
      }
      peer::Roster roster;
      roster.set_comm_id(id_.comm_id);
      roster.set_tenant(kTenant);
      AddHost(roster, kName, {kAddress, kPort}, 0);
      AddHost(roster, "h0", {world_.host(0).address(), kDaemonPort}, 1);
      peer::Message message;
      message.set_roster(roster.SerializeAsString());
      link->Send(message);
      rendezvous_ = std::move(link);
    }
    for (PeerLink* link : {control_link_.get(), join_link_.get(), rendezvous_.get()}) {
      if (link == nullptr) continue;
      link->Poll();
      for (auto message = link->Receive(); message.ok() && message->has_value();
           message = link->Receive()) {
        received_.push_back(std::move(**message));
      }
    }
  }
  static void AddHost(peer::Roster& roster, const std::string& name, const Endpoint& at, int rank) {
    peer::HostInfo* host = roster.add_hosts();
    host->set_name(name);
    host->set_endpoint_host(at.host);
    host->set_endpoint_port(at.port);
    host->add_ranks()->set_rank(rank);
  }
  std::unique_ptr<PeerLink> OpenLink(ConnectionPurpose purpose) {
    auto connection = Open({.purpose = purpose, .comm_id = CommId(id_.comm_id)});
    return connection == nullptr ? nullptr : std::make_unique<PeerLink>(std::move(connection));
  }
  std::unique_ptr<Connection> Open(const Preamble& preamble) {
    Dial dial({.network = &world_.network().HostNetwork(kAddress),
               .random = &random_,
               .clock = &world_.clock()},
              {.route = {.to = {world_.host(0).address(), kDaemonPort},
                         .connect = {.source_host = kAddress, .source_port = 0}},
               .preamble = preamble,
               .secret = secret_});
    std::unique_ptr<Connection> open;
    RunUntil([&] {
      auto polled = dial.Poll();
      if (!polled.ok()) return true;
      open = std::move(*polled);
      return open != nullptr;
    });
    return open;
  }

  static constexpr uint16_t kDaemonPort = 7400;

  SimWorld& world_;
  SimTenant& victim_;
  SeededRandom random_{7};
  std::unique_ptr<Log> log_ = MakeNullLog();
  Secret secret_{};
  wire::UniqueId id_{};
  bool leads_ = false;
  HostIndex self_{0};
  SimRank* rank_ = nullptr;
  std::unique_ptr<PeerListener> listener_;
  std::unique_ptr<PeerLink> rendezvous_;    // this is the rendezvous
  std::unique_ptr<PeerLink> join_link_;     // to the rendezvous, as a member
  std::unique_ptr<PeerLink> control_link_;  // between leader and member
  std::vector<std::unique_ptr<Connection>> out_;
  std::vector<std::unique_ptr<Connection>> in_;
  std::vector<peer::Message> received_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_ROGUE_PEER_H_
