#include "tests/sim/hostile_peer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

constexpr uint16_t kPort = 7400;
constexpr int64_t kHandshakeTimeoutNs = 5 * kNsPerSec;
constexpr int64_t kLongestPauseNs = 400 * kNsPerUs;
constexpr int kMessagesPerTurn = 16;
constexpr size_t kMaxReceived = 32;
constexpr int kManyHosts = 100'000;

}  // namespace

HostilePeer::HostilePeer(SimWorld& world, HostilePeerOptions options, RandomCounts& counts)
    : world_(world),
      options_(std::move(options)),
      counts_(counts),
      network_(world.network().HostNetwork(options_.address)),
      dice_(options_.seed),
      random_(options_.seed),
      listener_(std::make_unique<PeerListener>(
          *network_.Listen({options_.address, kPort}),
          [this](const Preamble& preamble) { return SecretFor(preamble); }, random_, *log_,
          PeerListenerLimits{}, options_.security)),
      attacks_from_(options_.must_fail ? Stage::kRendezvous : kStages[Below(std::size(kStages))]),
      actions_left_(20 + static_cast<int>(Below(60))),
      next_action_(world.clock().Now()) {
  ChooseActions();
  if (options_.rendezvous.has_value()) Join();
}

Secret HostilePeer::SecretFor(const Preamble& preamble) const {
  const bool joins = preamble.purpose == ConnectionPurpose::kJoin;
  return joins || !roster_.has_value() ? options_.secret : KeyOf(options_.secret, *roster_);
}

void HostilePeer::Leave() {
  has_left_ = true;
  actions_left_ = 0;
  listener_.reset();
  pending_dials_.clear();
  links_.clear();
  lanes_.clear();
  half_open_.clear();
}

MonotonicNs HostilePeer::NextEvent() const { return MayAct() ? next_action_ : kNever; }

bool HostilePeer::Poll() {
  if (has_left_) return false;
  bool moved = network_.Poll();
  moved |= PollArrivals();
  moved |= PollDials();
  moved |= PollLinks();
  moved |= PollLanes();
  for (HalfOpen& half : half_open_) {
    if (half.unsent.empty() || !half.connection->writable()) continue;
    const iovec piece{half.unsent.data(), half.unsent.size()};
    const auto written = half.connection->Write({&piece, 1});
    half.unsent.erase(0, written.ok() ? *written : half.unsent.size());
    moved = true;
  }
  if (MayAct() && world_.clock().Now() >= next_action_) {
    --actions_left_;
    next_action_ = world_.clock().Now() + 1 + static_cast<int64_t>(Below(kLongestPauseNs));
    Act();
    moved = true;
  }
  return moved;
}

// ---- Connections --------------------------------------------------------------------------------

bool HostilePeer::PollArrivals() {
  std::vector<Peer> peers = listener_->Poll(world_.clock().Now());
  for (Peer& peer : peers) Begin(peer.preamble, std::move(peer.connection));
  return !peers.empty();
}

void HostilePeer::Begin(const Preamble& preamble, std::unique_ptr<Connection> connection) {
  had_connection_ = true;
  if (preamble.purpose == ConnectionPurpose::kLane) {
    lanes_.emplace_back(std::move(connection), preamble, ShapeOf(preamble.epoch.value()),
                        /*sends=*/false);
    return;
  }
  const bool joins = preamble.purpose == ConnectionPurpose::kJoin;
  links_.push_back({.role = joins ? Role::kGuest : Role::kMember,
                    .host = -1,
                    .link = std::make_unique<PeerLink>(std::move(connection))});
}

void HostilePeer::Dial(const Preamble& preamble, const Endpoint& to, int host) {
  auto connection = network_.Connect(to, {});
  if (!connection.ok()) return;
  pending_dials_.push_back(
      {.preamble = preamble,
       .handshake = {*std::move(connection), preamble, SecretFor(preamble), random_,
                     world_.clock().Now() + kHandshakeTimeoutNs, options_.security},
       .host = host});
}

bool HostilePeer::PollDials() {
  bool moved = false;
  std::erase_if(pending_dials_, [&](PendingDial& each) {
    auto connection = each.handshake.Poll(world_.clock().Now());
    if (connection.ok() && *connection == nullptr) return false;
    moved = true;
    if (!connection.ok()) return true;
    had_connection_ = true;
    if (each.preamble.purpose == ConnectionPurpose::kLane) {
      lanes_.emplace_back(*std::move(connection), each.preamble,
                          ShapeOf(each.preamble.epoch.value()), /*sends=*/true);
      return true;
    }
    const bool joins = each.preamble.purpose == ConnectionPurpose::kJoin;
    Link& link =
        links_.emplace_back(Link{.role = joins ? Role::kJoining : Role::kLeader,
                                 .host = each.host,
                                 .link = std::make_unique<PeerLink>(*std::move(connection))});
    peer::Message message;
    if (!joins) {
      message.mutable_hello()->set_host_index(each.host);
      link.link->Send(message);
      return true;
    }
    for (const int rank : options_.played[static_cast<size_t>(each.host)]) {
      message.Clear();
      peer::Join& join = *message.mutable_join();
      join.set_ranks(options_.ranks);
      join.mutable_rank()->set_rank(rank);
      join.mutable_gpu()->set_uuid(absl::StrCat("gpu ", rank));
      join.set_tenant(options_.tenant);
      join.set_host(options_.security != nullptr ? options_.host
                                                 : absl::StrCat(options_.host, each.host));
      join.set_endpoint_host(options_.address);
      join.set_endpoint_port(kPort);
      if (attacks_from_ == Stage::kRendezvous && Below(3) == 0) {
        Corrupt(*message.mutable_join(), dice_);
        Count(RandomEvent::kCorruptedJoin);
      }
      link.link->Send(message);
    }
    return true;
  });
  return moved;
}

bool HostilePeer::PollLinks() {
  bool moved = false;
  for (auto link = links_.begin(); link != links_.end();) {
    moved |= link->link->Poll();
    bool gone = false;
    for (int i = 0; i < kMessagesPerTurn && !gone; ++i) {
      const auto message = link->link->Receive();
      gone = !message.ok();
      if (gone || !message->has_value()) break;
      moved = true;
      received_.push_back(**message);
      if (received_.size() > kMaxReceived) received_.pop_front();
      OnMessage(*link, **message);
    }
    link = gone ? links_.erase(link) : std::next(link);
  }
  return moved;
}

bool HostilePeer::PollLanes() {
  bool moved = false;
  for (HostileLane& lane : lanes_) {
    moved |= lane.Poll();
    if (!lane.sends()) TakeSlices(lane);
  }
  std::erase_if(lanes_, [](const HostileLane& lane) { return lane.broken(); });
  return moved;
}

void HostilePeer::SendTo(Role role, const peer::Message& message) {
  for (Link& link : links_) {
    if (link.role == role) link.link->Send(message);
  }
}

// ---- Rendezvous ---------------------------------------------------------------------------------

void HostilePeer::Join() {
  const Preamble preamble{.purpose = ConnectionPurpose::kJoin, .comm_id = options_.id};
  for (size_t host = 0; host < options_.played.size(); ++host) {
    Dial(preamble, *options_.rendezvous, static_cast<int>(host));
  }
}

void HostilePeer::OnMessage(Link& link, const peer::Message& message) {
  switch (link.role) {
    case Role::kGuest:
      return OnGuestMessage(message);
    case Role::kJoining:
      if (peer::Roster roster; message.has_roster() && !roster_.has_value() &&
                               roster.ParseFromString(message.roster())) {
        OnRoster(roster);
      }
      return;
    case Role::kMember:
      return OnMemberMessage(link, message);
    case Role::kLeader:
      return OnLeaderMessage(link, message);
  }
}

void HostilePeer::OnGuestMessage(const peer::Message& message) {
  if (!message.has_join() || roster_.has_value()) return;
  joins_.push_back(message.join());
  size_t expected = 0;
  for (const auto& daemon : options_.daemons) expected += daemon.ranks.size();
  if (joins_.size() < expected) return;
  const peer::Roster roster = MakeRoster();
  for (Link& link : links_) {
    if (link.role != Role::kGuest) continue;
    peer::Roster sent = roster;
    if (attacks_from_ == Stage::kRendezvous && Below(3) > 0) CorruptRoster(sent);
    peer::Message answer;
    answer.set_roster(sent.SerializeAsString());
    link.link->Send(answer);
  }
  OnRoster(roster);
}

peer::Roster HostilePeer::MakeRoster() {
  std::vector<peer::HostInfo> hosts;
  const auto add = [&](const std::string& name, const Endpoint& at, const std::vector<int>& ranks) {
    peer::HostInfo& host = hosts.emplace_back();
    host.set_name(name);
    host.set_endpoint_host(at.host);
    host.set_endpoint_port(at.port);
    for (const int rank : ranks) host.add_ranks()->set_rank(rank);
  };
  for (const auto& daemon : options_.daemons) add(daemon.name, daemon.endpoint, daemon.ranks);
  for (const auto& ranks : options_.played) add(options_.host, {options_.address, kPort}, ranks);
  std::shuffle(hosts.begin(), hosts.end(), dice_);
  peer::Roster roster;
  roster.set_comm_id(options_.id.value());
  roster.set_tenant(options_.tenant);
  for (const peer::HostInfo& host : hosts) *roster.add_hosts() = host;
  return roster;
}

void HostilePeer::CorruptRoster(peer::Roster& roster) {
  const auto some = [&] {
    return roster.mutable_hosts(
        static_cast<int>(Below(static_cast<uint64_t>(roster.hosts_size()))));
  };
  switch (Below(8)) {
    case 0: {
      peer::HostInfo* const host = some();
      for (uint64_t n = 1 + Below(8); n > 0; --n) {
        host->add_ranks()->set_rank(options_.ranks + static_cast<int>(Below(8)));
      }
      if (Below(2) == 0) roster.mutable_hosts()->RemoveLast();
      return Count(RandomEvent::kRosterOfOtherSize);
    }
    case 1: {
      const peer::HostInfo twice = *some();
      *roster.add_hosts() = twice;
      if (Below(2) == 0) {  // with different ranks
        roster.mutable_hosts(roster.hosts_size() - 1)->clear_ranks();
        roster.mutable_hosts(roster.hosts_size() - 1)->add_ranks()->set_rank(options_.ranks);
      }
      return Count(RandomEvent::kRosterNamesDaemonTwice);
    }
    case 2:
      roster.set_tenant(absl::StrCat("uid ", 1000 + Below(3)));
      return Count(RandomEvent::kRosterOfOtherTenant);
    case 3:
      roster.set_comm_id(RandomBoundaryNumber(roster.comm_id(), dice_));
      return Count(RandomEvent::kRosterOfOtherCommunicator);
    case 4:
      if (Below(2) == 0) {
        roster.clear_hosts();
      } else {
        some()->clear_ranks();
      }
      return Count(RandomEvent::kRosterWithoutHosts);
    case 5:
      // Rare in a run: each costs as much as a whole world.
      if (Below(8) > 0) return CorruptRoster(roster);
      for (int n = 0; n < kManyHosts; ++n) {
        roster.add_hosts()->add_ranks()->set_rank(options_.ranks + n);
      }
      return Count(RandomEvent::kRosterOfManyHosts);
    case 6: {
      const Endpoint& world_daemon = options_.world_daemons[Below(options_.world_daemons.size())];
      some()->set_endpoint_host(world_daemon.host);
      some()->set_endpoint_port(world_daemon.port);
      return Count(RandomEvent::kRosterNamesUninvolvedDaemon);
    }
    default:
      Corrupt(roster, dice_);
      return Count(RandomEvent::kCorruptedRoster);
  }
}

void HostilePeer::OnRoster(const peer::Roster& roster) {
  roster_ = roster;
  for (int h = 0; h < roster.hosts_size(); ++h) {
    for (const cluster::Member& member : roster.hosts(h).ranks()) {
      if (member.rank() == 0) leader_ = h;
    }
  }
  stage_ = Stage::kOpening;
  if (leader_ < 0 || Plays(leader_)) return;
  const Preamble preamble{.purpose = ConnectionPurpose::kMember, .comm_id = options_.id};
  for (int h = 0; h < roster.hosts_size(); ++h) {
    if (Plays(h)) Dial(preamble, EndpointOf(leader_), h);
  }
}

bool HostilePeer::Plays(int host) const {
  return roster_->hosts(host).endpoint_host() == options_.address;
}

Endpoint HostilePeer::EndpointOf(int host) const {
  const peer::HostInfo& info = roster_->hosts(host);
  return {info.endpoint_host(), static_cast<uint16_t>(info.endpoint_port())};
}

// ---- Leader and member --------------------------------------------------------------------------

void HostilePeer::OnMemberMessage(Link& link, const peer::Message& message) {
  if (message.has_hello()) {
    link.host = message.hello().host_index();
    if (++hellos_ != static_cast<int>(options_.daemons.size()) || !roster_.has_value()) return;
    strategies_[1] = RandomStrategy(1);
    epoch_ = 1;
    strategy::Strategy sent = strategies_[1];
    if (attacks_from_ == Stage::kOpening && Below(2) == 0) CorruptStrategy(sent);
    peer::Message open;
    open.mutable_open()->set_strategy(sent.SerializeAsString());
    SendTo(Role::kMember, open);
    OpenLanes(strategies_[1]);
  } else if (message.has_ready()) {
    if (++readies_ != static_cast<int>(options_.daemons.size())) return;
    peer::Message go;
    go.mutable_go();
    SendTo(Role::kMember, go);
    StartRunning();
  } else if (message.has_split_call()) {
    AnswerSplit(link, message.split_call());
  } else if (message.has_strategy_change_answer()) {
    ++answers_;
    if (message.strategy_change_answer().has_started())
      operation_ = message.strategy_change_answer().started();
  }
}

void HostilePeer::OnLeaderMessage(Link& link, const peer::Message& message) {
  peer::Message answer;
  if (message.has_open()) {
    strategy::Strategy strategy;
    if (strategy.ParseFromString(message.open().strategy())) AdoptStrategy(strategy);
    answer.mutable_ready();
    link.link->Send(answer);
  } else if (message.has_go()) {
    StartRunning();
  } else if (message.has_strategy_change()) {
    AnswerChange(link, message.strategy_change());
  } else if (message.has_entered_request()) {
    answer.mutable_entered()->set_request_id(message.entered_request().request_id());
    answer.mutable_entered()->set_operation(operation_);
    link.link->Send(answer);
  } else if (message.has_order_hold()) {
    answer.mutable_order_started()->set_operation(operation_);
    link.link->Send(answer);
  }
}

strategy::Strategy HostilePeer::RandomStrategy(uint64_t epoch) {
  strategy::Strategy strategy;
  strategy.set_epoch(epoch);
  for (uint64_t c = 1 + Below(3); c > 0; --c) {
    std::vector<int> ring;
    for (int h = 0; h < roster_->hosts_size(); ++h) ring.push_back(h);
    std::shuffle(ring.begin(), ring.end(), dice_);
    strategy.add_channels()->mutable_ring()->Assign(ring.begin(), ring.end());
  }
  strategy.mutable_lanes()->set_slots(4);
  strategy.mutable_lanes()->set_slot_bytes(16u << 10);
  strategy.set_skew(1);
  strategy.set_origin("a liar");
  return strategy;
}

void HostilePeer::CorruptStrategy(strategy::Strategy& strategy) {
  if (Below(2) == 0 && strategy.channels_size() > 0) {
    auto& channel = *strategy.mutable_channels(0);
    for (int i = 0; i < channel.ring_size(); ++i) {
      const Endpoint& world_daemon = options_.world_daemons[Below(options_.world_daemons.size())];
      channel.add_addresses(Below(2) == 0 ? world_daemon.host : "10.99.0.1");
    }
    return Count(RandomEvent::kStrategyWithInvalidAddress);
  }
  Corrupt(strategy, dice_);
  Count(RandomEvent::kCorruptedStrategy);
}

void HostilePeer::OpenLanes(const strategy::Strategy& strategy) {
  for (int c = 0; c < strategy.channels_size(); ++c) {
    const auto& ring = strategy.channels(c).ring();
    for (int i = 0; i < ring.size(); ++i) {
      const int from = ring[i];
      const int to = ring[(i + 1) % ring.size()];
      if (!Plays(from) || Plays(to)) continue;
      Dial({.purpose = ConnectionPurpose::kLane,
            .comm_id = options_.id,
            .epoch = Epoch(strategy.epoch()),
            .channel = ChannelId(c),
            .from_host = HostIndex(from),
            .to_host = HostIndex(to)},
           EndpointOf(to), from);
    }
  }
}

// All hosts that this plays receive the strategy.
void HostilePeer::AdoptStrategy(const strategy::Strategy& strategy) {
  epoch_ = strategy.epoch();
  if (strategies_.emplace(epoch_, strategy).second) OpenLanes(strategy);
}

LaneShape HostilePeer::ShapeOf(uint64_t epoch) const {
  auto strategy = strategies_.find(epoch);
  if (strategy == strategies_.end()) strategy = strategies_.begin();
  if (strategy == strategies_.end()) return {.slots = 4, .slot_bytes = 16u << 10};
  return {.slots = strategy->second.lanes().slots(),
          .slot_bytes = strategy->second.lanes().slot_bytes()};
}

void HostilePeer::StartRunning() {
  if (stage_ == Stage::kRunning) return;
  stage_ = Stage::kRunning;
  Count(RandomEvent::kHostileCommunicatorFormed);
  OpenMessageLanes();
}

}  // namespace mccs
