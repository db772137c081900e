#include "service/communicator/lanes/lane_set.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/units.h"

namespace mccs {
// ---- The rings ----------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<LaneSet>> LaneSet::Make(const LaneSetOptions& options) {
  std::unique_ptr<LaneSet> set(new LaneSet(options));
  MCCS_RETURN_IF_ERROR(set->CheckAddresses(options.strategy));
  if (!options.collectives) return set;
  const std::vector<ChannelStrategy>& channels = options.strategy.channels;
  for (size_t c = 0; c < channels.size(); ++c) {
    MCCS_RETURN_IF_ERROR(set->AddRing(ChannelId(static_cast<int>(c)), channels[c]));
  }
  return set;
}

LaneSet::LaneSet(const LaneSetOptions& options)
    : options_(options),
      message_lanes_(MessageLanes(options.strategy.lanes, static_cast<int>(options.hosts.size()))),
      channels_(options.strategy.channels),
      rate_(options.strategy.lanes.slot_bytes),
      ready_(options.waker),
      departed_(options.hosts.size(), false),
      memory_(options.memory != nullptr ? options.memory : std::make_shared<LaneMemory>()),
      descriptors_(options.budget, Resource::kDescriptors),
      mappings_(options.budget, Resource::kMappings) {}

LaneSet::~LaneSet() { memory_->taken.Return(memory_bytes_); }

absl::Status LaneSet::AddRing(ChannelId id, const ChannelStrategy& strategy) {
  const size_t hosts = strategy.ring.size();
  if (hosts == 1) return absl::OkStatus();
  const auto self = std::find(strategy.ring.begin(), strategy.ring.end(), options_.self);
  const auto position = static_cast<size_t>(self - strategy.ring.begin());
  const HostIndex next = strategy.ring[(position + 1) % hosts];
  const HostIndex previous = strategy.ring[(position + hosts - 1) % hosts];
  MCCS_RETURN_IF_ERROR(FindOrMakeIncoming(id, previous).status());
  Open(id, next, FirstDial::kMustSucceed);
  ++ring_lanes_;
  return absl::OkStatus();
}

absl::Status LaneSet::CheckAddresses(const Strategy& strategy) const {
  const std::vector<std::string> served = options_.transport->Addresses();
  for (size_t c = 0; c < strategy.channels.size(); ++c) {
    const std::string address = AddressOn(strategy.channels[c], options_.self);
    if (address.empty()) continue;
    const bool serves = served.empty() || std::ranges::find(served, address) != served.end();
    if (!serves) {
      return absl::InvalidArgumentError(absl::StrCat(
          "strategy: channel ", c, ": no RDMA device of this host has address ", address));
    }
    if (options_.access.network->HasAddress(address)) continue;
    return absl::InvalidArgumentError(absl::StrCat("strategy: channel ", c, ": source address ",
                                                   address, " is not an address of this host"));
  }
  return absl::OkStatus();
}

void LaneSet::MoveTo(const Strategy& strategy) {
  channels_ = strategy.channels;
  for (const auto& lane : outgoing_) lane->MoveTo(RouteTo(lane->channel(), lane->peer()));
  if (rate_limits_.has_value()) SetRateLimits(*rate_limits_);
  WakeAll();
}

ChannelId LaneSet::RoutingChannel(ChannelId channel) const {
  if (!IsMessageChannel(channel)) return channel;
  return ChannelId(MessageLaneOf(channel) % static_cast<int>(channels_.size()));
}

DialRoute LaneSet::RouteTo(ChannelId channel, HostIndex peer) const {
  const auto to = static_cast<size_t>(peer.value());
  DialRoute route{.to = options_.hosts[to],
                  .connect = {.source_host = own_address(), .source_port = 0}};
  if (!options_.nics.empty()) route.to.host = options_.nics[to]->front();
  const auto routing = static_cast<size_t>(RoutingChannel(channel).value());
  const LaneRoute chosen = RouteOf(channels_[routing], options_.self, peer);
  // The channel's own lane to the peer has the port.
  if (!IsMessageChannel(channel)) route.connect.source_port = chosen.source_port;
  if (!chosen.source_host.empty()) route.connect.source_host = chosen.source_host;
  if (!chosen.target_host.empty()) route.to.host = chosen.target_host;
  return route;
}

const std::string& LaneSet::own_address() const {
  if (options_.nics.empty()) return options_.source_host;
  return options_.nics[static_cast<size_t>(options_.self.value())]->front();
}

LaneRoutes LaneSet::RoutesTo(HostIndex peer) const {
  if (options_.nics.empty()) return {nullptr, nullptr};
  return {options_.nics[static_cast<size_t>(options_.self.value())],
          options_.nics[static_cast<size_t>(peer.value())]};
}

Preamble LaneSet::PreambleOf(ChannelId channel, HostIndex from, HostIndex to) const {
  return {.purpose = ConnectionPurpose::kLane,
          .comm_id = options_.id,
          .epoch = options_.strategy.epoch,
          .channel = channel,
          .from_host = from,
          .to_host = to};
}

LaneIdentity LaneSet::IdentityOf(ChannelId channel, HostIndex from, HostIndex to) const {
  const HostIndex peer = from == options_.self ? to : from;
  const auto routing = static_cast<size_t>(RoutingChannel(channel).value());
  std::string nic = AddressOn(channels_[routing], options_.self);
  if (nic.empty()) nic = own_address();
  return {.communicator = options_.id,
          .epoch = options_.strategy.epoch,
          .channel = channel,
          .from = from,
          .to = to,
          .queues = {.peer = options_.hosts[static_cast<size_t>(peer.value())],
                     .domain = {.nic = {std::move(nic)}, .tenant = options_.tenant},
                     .traffic_class = traffic_class()}};
}

TrafficClass LaneSet::traffic_class() const {
  return TrafficClass(static_cast<uint8_t>(rate_limits_.has_value() ? rate_limits_->priority : 0));
}

bool LaneSet::ready() const {
  for (size_t i = 0; i < ring_lanes_; ++i) {
    if (!outgoing_[i]->attached() || !incoming_[i]->attached()) return false;
  }
  return true;
}

// ---- Lanes between any two hosts ----------------------------------------------------------------

bool LaneSet::IsLegalLane(ChannelId channel, HostIndex peer) const {
  const int hosts = static_cast<int>(options_.hosts.size());
  const int channels = static_cast<int>(options_.strategy.channels.size());
  const bool known = options_.collectives && channel.value() >= 0 && channel.value() < channels;
  const bool message =
      options_.messages && IsMessageChannel(channel) && MessageLaneOf(channel) < message_lanes_;
  return (known || message) && peer != options_.self && peer.value() >= 0 && peer.value() < hosts;
}

SendLane* LaneSet::SendTo(ChannelId channel, HostIndex peer) {
  MCCS_CHECK(IsLegalLane(channel, peer));
  if (auto known = outgoing_by_key_.find({channel, peer}); known != outgoing_by_key_.end()) {
    return &known->second->lane();
  }
  return &Open(channel, peer, FirstDial::kMayRetry).lane();
}

LaneSet::LaneTurns& LaneSet::AddTurns(ChannelId channel) {
  LaneTurns& turns = turns_.emplace_back(ready_);
  turns.index = turns_.size() - 1;
  turns.on_request = IsMessageChannel(channel);
  turns.List();
  idle_ = false;
  return turns;
}

OutgoingLane& LaneSet::Open(ChannelId channel, HostIndex peer, FirstDial first) {
  rejected_.Update(descriptors_.Take());
  LaneTurns& turns = AddTurns(channel);
  const DialOptions dial{.route = RouteTo(channel, peer),
                         .preamble = PreambleOf(channel, options_.self, peer),
                         .secret = options_.secret,
                         .waker = &turns};
  OutgoingLane& lane = *outgoing_.emplace_back(std::make_unique<OutgoingLane>(
      options_.access, dial, RoutesTo(peer), first,
      options_.transport->MakeSendLane(IdentityOf(channel, options_.self, peer),
                                       options_.strategy.lanes),
      LaneTally(options_.counters != nullptr ? &options_.counters->sent : nullptr), &rate_));
  outgoing_by_key_.emplace(LaneKey(channel, peer), &lane);
  turns.outgoing = &lane;
  lane.lane().SetPoller(&turns);
  if (departed_[static_cast<size_t>(peer.value())]) lane.MarkDeparted();
  if (rate_limits_.has_value()) {
    lane.SetRateLimits(*rate_limits_, *sent_rates_, RoutingChannel(channel), *options_.pacing);
  }
  UpdateDeadline(turns);
  return lane;
}

absl::StatusOr<RecvLane*> LaneSet::ReceiveFrom(ChannelId channel, HostIndex peer) {
  MCCS_CHECK(IsLegalLane(channel, peer));
  MCCS_ASSIGN_OR_RETURN(const LaneTurns* const turns, FindOrMakeIncoming(channel, peer));
  return &turns->incoming->lane();
}

absl::StatusOr<LaneSet::LaneTurns*> LaneSet::FindOrMakeIncoming(ChannelId channel, HostIndex peer) {
  if (auto known = incoming_by_key_.find({channel, peer}); known != incoming_by_key_.end()) {
    return known->second;
  }
  MCCS_RETURN_IF_ERROR(descriptors_.Take());
  std::shared_ptr<Region> slots;
  if (!IsMessageChannel(channel)) {
    MCCS_ASSIGN_OR_RETURN(slots, AllocateMemory(options_.strategy.lanes.receive_bytes()));
  }
  auto lane = options_.transport->MakeRecvLane(IdentityOf(channel, peer, options_.self),
                                               options_.strategy.lanes,
                                               slots == nullptr ? RegionSpan{} : WholeOf(*slots));
  const LaneOrigin origin{.channel = channel,
                          .peer = peer,
                          .endpoint = options_.hosts[static_cast<size_t>(peer.value())]};
  LaneTurns& turns = AddTurns(channel);
  IncomingLane& incoming = *incoming_.emplace_back(std::make_unique<IncomingLane>(
      *options_.access.clock, origin, std::move(slots), std::move(lane),
      LaneTally(options_.counters != nullptr ? &options_.counters->received : nullptr)));
  if (RoutesTo(peer).has_others()) {
    incoming.SetReopenRequest(std::make_unique<ReopenRequest>(
        options_.access,
        DialOptions{.route = {.to = RouteTo(channel, peer).to, .connect = {}},
                    .preamble = PreambleOf(channel, peer, options_.self),
                    .secret = options_.secret,
                    .waker = &turns},
        RoutesTo(peer)));
  }
  turns.incoming = &incoming;
  incoming.lane().SetPoller(&turns);
  incoming_by_key_.emplace(LaneKey(channel, peer), &turns);
  if (rate_limits_.has_value()) {
    incoming.SetClass(traffic_class(), options_.pacing->DscpOf(rate_limits_->priority));
  }
  if (departed_[static_cast<size_t>(peer.value())]) incoming.MarkDeparted();
  if (IsMessageChannel(channel) && message_listener_) {
    message_listener_(peer, MessageLaneOf(channel), incoming.lane());
  }
  return &turns;
}

void LaneSet::SetMessageListener(MessageListener listener) {
  message_listener_ = std::move(listener);
  for (const auto& lane : incoming_) {
    if (!IsMessageChannel(lane->channel())) continue;
    message_listener_(lane->peer(), MessageLaneOf(lane->channel()), lane->lane());
  }
}

absl::StatusOr<RegionSpan> LaneSet::StagingTo(ChannelId channel, HostIndex peer) {
  MCCS_CHECK(IsLegalLane(channel, peer));
  std::shared_ptr<Region>& staging = staging_[LaneKey(channel, peer)];
  if (staging == nullptr) {
    const uint64_t bytes = options_.strategy.lanes.staging_bytes();
    if (reserved_bytes_ >= bytes) {
      reserved_bytes_ -= bytes;
      MCCS_ASSIGN_OR_RETURN(staging, AllocateReserved(bytes));
    } else {
      MCCS_ASSIGN_OR_RETURN(staging, AllocateMemory(bytes));
    }
  }
  return WholeOf(*staging);
}

absl::Status LaneSet::ReserveStaging() {
  const uint64_t bytes = ring_lanes_ * options_.strategy.lanes.staging_bytes();
  MCCS_RETURN_IF_ERROR(ReserveMemory(bytes));
  reserved_bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status LaneSet::ReserveMemory(uint64_t bytes) {
  if (memory_->taken.held() + bytes > memory_->allowed) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "lane memory of the communicator exceeds its limit of ", FormatBytes(memory_->allowed),
        " per host, with ", FormatBytes(memory_->taken.held()),
        " in use; use fewer channels, or lower `slots` or `slot_bytes` of `lanes` in "
        "mccsd's configuration"));
  }
  MCCS_RETURN_IF_ERROR(memory_->taken.Take(bytes));
  memory_bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Region>> LaneSet::AllocateMemory(uint64_t bytes) {
  MCCS_RETURN_IF_ERROR(ReserveMemory(bytes));
  return AllocateReserved(bytes);
}

absl::StatusOr<std::shared_ptr<Region>> LaneSet::AllocateReserved(uint64_t bytes) {
  MCCS_RETURN_IF_ERROR(mappings_.Take());
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<Region> memory, options_.device->Allocate(bytes));
  return std::shared_ptr<Region>(memory.release(), [transport = options_.transport](Region* ended) {
    transport->Forget(*ended, std::shared_ptr<Region>(ended));
  });
}

std::optional<OperationSignature> LaneSet::FindMismatchedCall(const OperationSignature& own) const {
  for (const auto& lane : incoming_) {
    if (IsMessageChannel(lane->channel())) continue;
    const std::optional<SliceTag> tag = lane->lane().OldestTag();
    if (!tag.has_value()) continue;
    const OperationSignature call = FromTag(*tag);
    if (call.number == own.number && call != own) return call;
  }
  return std::nullopt;
}

LaneSet::MemoryRelease LaneSet::ReleaseLaneMemory(size_t* next) {
  if (options_.transport->pins_memory()) return MemoryRelease::kAll;
  for (const auto& lane : outgoing_) {
    const bool composed = staging_.contains({lane->channel(), lane->peer()});
    if (composed && lane->lane().source_free() != lane->lane().next()) return MemoryRelease::kNone;
  }
  size_t given_back = 0;
  for (; *next < incoming_.size() + outgoing_.size(); ++*next) {
    if (given_back >= kReleasedBytesPerCall) return MemoryRelease::kSome;
    given_back += *next < incoming_.size() ? ReleaseSlots(incoming_[*next]->lane())
                                           : ReleaseStaging(*outgoing_[*next - incoming_.size()]);
  }
  return MemoryRelease::kAll;
}

size_t LaneSet::ReleaseSlots(RecvLane& lane) {
  size_t bytes = 0;
  for (const RegionSpan& slot : lane.UnusedSlots()) {
    options_.device->Discard({slot.address(), slot.bytes});
    bytes += slot.bytes;
  }
  return bytes;
}

size_t LaneSet::ReleaseStaging(const OutgoingLane& lane) {
  const auto staging = staging_.find({lane.channel(), lane.peer()});
  if (staging == staging_.end()) return 0;
  options_.device->Discard({staging->second->address(), staging->second->bytes()});
  return staging->second->bytes();
}

// The peer may open a lane before this host knows that it needs it.
void LaneSet::Accept(const Preamble& preamble, std::unique_ptr<Connection> connection) {
  if (preamble.epoch != options_.strategy.epoch) return;
  if (preamble.from_host == options_.self) {
    const auto asked = outgoing_by_key_.find({preamble.channel, preamble.to_host});
    if (asked == outgoing_by_key_.end()) return;
    asked->second->OnReopenRequest();
    return asked->second->lane().RequestPoll();
  }
  if (preamble.to_host != options_.self || !IsLegalLane(preamble.channel, preamble.from_host)) {
    return;
  }
  const auto turns = FindOrMakeIncoming(preamble.channel, preamble.from_host);
  if (!turns.ok()) {
    rejected_.Update(turns.status());
    return;
  }
  connection->SetWaker(*turns);
  (*turns)->List();
  (*turns)->incoming->Attach(std::move(connection));
}

// ---- Turns of the engine ------------------------------------------------------------------------

absl::StatusOr<bool> LaneSet::Poll() {
  MCCS_RETURN_IF_ERROR(rejected_);
  ListDue();
  bool moved = false;
  const int64_t end = cost_ + kCostPerPoll;
  for (size_t left = ready_.size(); left > 0; --left) {
    if (cost_ >= end) {
      moved = true;
      break;
    }
    MCCS_RETURN_IF_ERROR(PollLane(static_cast<LaneTurns&>(*ready_.Next()), &moved));
  }
  idle_ = !moved;
  return moved;
}

absl::Status LaneSet::PollLane(LaneTurns& turns, bool* moved) {
  bool lane_moved = false;
  const auto poll = [&](auto& lane) {
    const uint64_t before = lane.lane().moved_bytes();
    const absl::Status status = lane.Poll(&lane_moved);
    cost_ += static_cast<int64_t>(lane.lane().moved_bytes() - before);
    if (lane_moved) lane.lane().NotifyUser();
    return status;
  };
  const absl::Status status =
      turns.incoming != nullptr ? poll(*turns.incoming) : poll(*turns.outgoing);
  if (lane_moved) cost_ += kLaneCost;
  UpdateDeadline(turns);
  const bool held = turns.outgoing != nullptr && turns.outgoing->held();
  if (std::exchange(turns.held, held) != held) held_ += held ? 1 : -1;
  // The gate of another lane may open this one's, and an error persists.
  if (!turns.on_request || lane_moved || held || !status.ok()) turns.List();
  *moved |= lane_moved;
  return status;
}

void LaneSet::WakeAll() {
  for (LaneTurns& turns : turns_) {
    turns.List();
    UpdateDeadline(turns);
  }
}

void LaneSet::ListDue() {
  if (deadlines_.empty()) return;
  const MonotonicNs now = options_.access.clock->Now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    LaneTurns& turns = turns_[deadlines_.begin()->second];
    SetDeadline(turns, kNever);
    turns.List();
  }
}

void LaneSet::UpdateDeadline(LaneTurns& turns) {
  const MonotonicNs next =
      turns.incoming != nullptr ? turns.incoming->NextDeadline() : turns.outgoing->NextDeadline();
  if (next != turns.deadline) SetDeadline(turns, next);
}

void LaneSet::SetDeadline(LaneTurns& turns, MonotonicNs deadline) {
  if (turns.deadline != kNever) deadlines_.erase({turns.deadline, turns.index});
  turns.deadline = deadline;
  if (deadline != kNever) deadlines_.insert({deadline, turns.index});
}

bool LaneSet::drained() const {
  return idle_ && std::all_of(outgoing_.begin(), outgoing_.end(),
                              [](const auto& lane) { return lane->drained(); });
}

void LaneSet::MarkDeparted(HostIndex host) {
  departed_[static_cast<size_t>(host.value())] = true;
  for (const auto& lane : outgoing_) {
    if (lane->peer() == host) lane->MarkDeparted();
  }
  for (const auto& lane : incoming_) {
    if (lane->peer() == host) lane->MarkDeparted();
  }
  WakeAll();
}

void LaneSet::TolerateLosses() {
  for (const auto& lane : outgoing_) lane->TolerateLoss();
  for (const auto& lane : incoming_) lane->TolerateLoss();
  WakeAll();
}

MonotonicNs LaneSet::NextDeadline() const {
  if (!rejected_.ok()) return 0;
  return deadlines_.empty() ? kNever : deadlines_.begin()->first;
}

void LaneSet::SetRateLimits(const RateLimits& limits) {
  MCCS_CHECK(options_.pacing != nullptr);
  rate_limits_ = limits;
  sent_rates_.emplace(limits, options_.self);
  for (const auto& lane : outgoing_) {
    lane->SetRateLimits(limits, *sent_rates_, RoutingChannel(lane->channel()), *options_.pacing);
  }
  for (const auto& lane : incoming_) {
    lane->SetClass(traffic_class(), options_.pacing->DscpOf(limits.priority));
  }
  WakeAll();
}

// ---- Reports ------------------------------------------------------------------------------------

std::string LaneSet::DescribeMissing() const {
  std::vector<std::string> missing;
  for (const auto& lane : outgoing_) {
    if (!lane->lane().status().ok()) missing.push_back(lane->Describe());
  }
  for (const auto& lane : incoming_) {
    if (!lane->lane().status().ok()) missing.push_back(lane->Describe());
  }
  return absl::StrJoin(missing, ", ");
}

std::vector<agent::v1::Lane> LaneSet::Stats() const {
  std::vector<agent::v1::Lane> stats;
  for (const auto& lane : outgoing_) stats.push_back(lane->Stats());
  return stats;
}

}  // namespace mccs
