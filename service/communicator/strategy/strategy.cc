#include "service/communicator/strategy/strategy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "proto/strategy.pb.h"

namespace mccs {
namespace {

static_assert(strategy::Algorithm_MAX + 1 == kAlgorithms, "the message has every algorithm");

size_t PositionOf(const ChannelStrategy& channel, HostIndex host) {
  return static_cast<size_t>(std::find(channel.ring.begin(), channel.ring.end(), host) -
                             channel.ring.begin());
}

// 0: not a numeric address, or the wildcard.
int FamilyOf(const std::string& address) {
  if (IsWildcardAddress(address)) return 0;
  in6_addr parsed;
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, address.c_str(), &parsed) == 1) return family;
  }
  return 0;
}

absl::Status ValidateAddresses(const ChannelStrategy& channel, size_t index) {
  if (channel.addresses.empty()) return absl::OkStatus();
  if (channel.addresses.size() != channel.ring.size()) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: channel ", index, " has ",
                                                   channel.addresses.size(), " addresses for ",
                                                   channel.ring.size(), " hosts"));
  }
  for (const std::string& address : channel.addresses) {
    if (FamilyOf(address) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("strategy: channel ", index, ": '", address, "' is not a numeric address"));
    }
    if (FamilyOf(address) != FamilyOf(channel.addresses.front())) {
      return absl::InvalidArgumentError(
          absl::StrCat("strategy: channel ", index, " mixes IPv4 and IPv6 addresses"));
    }
  }
  return absl::OkStatus();
}

// CheckHomes compares them with the ranks of each host.
absl::Status ValidateHomes(const ChannelStrategy& channel, size_t index) {
  if (!channel.homes.empty() && channel.homes.size() != channel.ring.size()) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: channel ", index, " has ",
                                                   channel.homes.size(), " home ranks for ",
                                                   channel.ring.size(), " hosts"));
  }
  for (const LocalIndex home : channel.homes) {
    if (home.value() >= 0 && home.value() < kMaxLocalRanks) continue;
    return absl::InvalidArgumentError(absl::StrCat("strategy: channel ", index, ": home rank ",
                                                   home.value(), ": expected 0 to ",
                                                   kMaxLocalRanks - 1));
  }
  return absl::OkStatus();
}

// REQUIRES: the ring is a permutation.
absl::Status ValidateOtherLanes(const ChannelStrategy& channel, size_t index) {
  const int hosts = static_cast<int>(channel.ring.size());
  const auto known = [&](HostIndex host) { return host.value() >= 0 && host.value() < hosts; };
  // Each lane at most once, which also bounds the time of this check.
  if (channel.other_lanes.size() > channel.ring.size() * channel.ring.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: channel ", index, " has ", channel.other_lanes.size(),
                     " lanes outside the ring: more than pairs of its ", hosts, " hosts"));
  }
  std::vector<size_t> position(channel.ring.size());
  for (size_t i = 0; i < channel.ring.size(); ++i) {
    position[static_cast<size_t>(channel.ring[i].value())] = i;
  }
  std::vector<std::pair<HostIndex, HostIndex>> seen;
  seen.reserve(channel.other_lanes.size());
  for (const LanePort& lane : channel.other_lanes) {
    const auto reject = [&](const std::string& why) {
      return absl::InvalidArgumentError(absl::StrCat("strategy: channel ", index, ": lane from ",
                                                     lane.from.value(), " to ", lane.to.value(),
                                                     " in `other_lanes` ", why));
    };
    if (!known(lane.from) || !known(lane.to) || lane.from == lane.to) {
      return reject(absl::StrCat("is not between two of ", hosts, " hosts"));
    }
    const size_t from = position[static_cast<size_t>(lane.from.value())];
    if (channel.ring[(from + 1) % channel.ring.size()] == lane.to) {
      return reject("is a ring lane: set its port in source_ports");
    }
    seen.emplace_back(lane.from, lane.to);
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: channel ", index, " lists a lane in `other_lanes` twice"));
  }
  return absl::OkStatus();
}

absl::Status ValidateChannel(const ChannelStrategy& channel, size_t index, int hosts) {
  std::vector<bool> seen(hosts, false);
  for (HostIndex host : channel.ring) {
    if (host.value() < 0 || host.value() >= hosts || seen[host.value()]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "strategy: ring of channel ", index, " is not a permutation of the ", hosts, " hosts"));
    }
    seen[host.value()] = true;
  }
  if (static_cast<int>(channel.ring.size()) != hosts) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: ring of channel ", index, " names ",
                                                   channel.ring.size(), " of ", hosts, " hosts"));
  }
  if (!channel.source_ports.empty() && channel.source_ports.size() != channel.ring.size()) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: channel ", index, " has ",
                                                   channel.source_ports.size(),
                                                   " source ports for ", hosts, " lanes"));
  }
  if (absl::Status s = ValidateAddresses(channel, index); !s.ok()) return s;
  if (absl::Status s = ValidateHomes(channel, index); !s.ok()) return s;
  return ValidateOtherLanes(channel, index);
}

// Lane memory for one peer: receive slots and staging memory.
uint64_t PeerBytes(const Strategy& strategy) {
  return 2 * strategy.channels.size() * strategy.lanes.slots * uint64_t{strategy.lanes.slot_bytes};
}

}  // namespace

absl::Status ValidateStrategy(const Strategy& strategy, int hosts) {
  if (strategy.epoch == Epoch(0)) {
    return absl::InvalidArgumentError("strategy: epoch 0: epochs start at 1");
  }
  const auto is_control = [](unsigned char c) { return c < ' '; };
  if (strategy.origin.size() > kMaxOriginBytes ||
      std::any_of(strategy.origin.begin(), strategy.origin.end(), is_control)) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: origin of ", strategy.origin.size(),
                                                   " bytes: expected one line of at most ",
                                                   kMaxOriginBytes, " bytes"));
  }
  if (strategy.channels.empty() || strategy.channels.size() > kMaxChannels) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: ", strategy.channels.size(),
                                                   " channels: expected 1 to ", kMaxChannels));
  }
  if (strategy.lanes.slots < 2 || strategy.lanes.slots > kMaxLaneSlots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy: ", strategy.lanes.slots, " slots per lane: expected 2 to ", kMaxLaneSlots));
  }
  if (strategy.lanes.slot_bytes < kMinSlotBytes || strategy.lanes.slot_bytes > kMaxSlotBytes) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: slots of ", strategy.lanes.slot_bytes,
                                                   " bytes: expected ", kMinSlotBytes, " to ",
                                                   kMaxSlotBytes, " bytes"));
  }
  const uint64_t memory = PeerBytes(strategy);
  if (hosts > 1 && memory > kMaxLaneMemoryBytes) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: lanes with ", memory,
                                                   " bytes of memory per host: at most ",
                                                   kMaxLaneMemoryBytes, " are allowed"));
  }
  if (strategy.skew >=
      strategy.lanes.slots) {  // Deadlock freedom of plans depends on it (plan_check.h).
    return absl::InvalidArgumentError(absl::StrCat("strategy: skew ", strategy.skew,
                                                   ": expected less than the ",
                                                   strategy.lanes.slots, " slots per lane"));
  }
  if (absl::Status s = ValidateChoice(strategy.algorithms); !s.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: algorithms: ", std::string(s.message())));
  }
  for (size_t i = 0; i < strategy.channels.size(); ++i) {
    if (absl::Status s = ValidateChannel(strategy.channels[i], i, hosts); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckHomes(const Strategy& strategy, const Layout& layout) {
  for (size_t c = 0; c < strategy.channels.size(); ++c) {
    const ChannelStrategy& channel = strategy.channels[c];
    for (size_t i = 0; i < channel.homes.size(); ++i) {
      const HostIndex host = channel.ring[i];
      const size_t ranks = layout.hosts[static_cast<size_t>(host.value())].size();
      if (static_cast<size_t>(channel.homes[i].value()) < ranks) continue;
      return absl::InvalidArgumentError(absl::StrCat("strategy: channel ", c, ": home rank ",
                                                     channel.homes[i].value(), " on host ",
                                                     host.value(), ": expected 0 to ", ranks - 1));
    }
  }
  return absl::OkStatus();
}

StrategyDifference Compare(const Strategy& one, const Strategy& other) {
  Strategy moved = other;
  moved.epoch = one.epoch;
  moved.origin = one.origin;
  if (moved.channels.size() != one.channels.size()) return StrategyDifference::kLanes;
  Strategy chosen = moved;
  for (size_t i = 0; i < moved.channels.size(); ++i) {
    moved.channels[i].source_ports = one.channels[i].source_ports;
    moved.channels[i].addresses = one.channels[i].addresses;
    moved.channels[i].other_lanes = one.channels[i].other_lanes;
  }
  if (moved == one) return StrategyDifference::kRoutes;
  chosen.algorithms = one.algorithms;
  for (size_t i = 0; i < chosen.channels.size(); ++i) {
    chosen.channels[i].homes = one.channels[i].homes;
  }
  return chosen == one ? StrategyDifference::kAlgorithms : StrategyDifference::kLanes;
}

LaneRoute RouteOf(const ChannelStrategy& channel, HostIndex from, HostIndex to) {
  LaneRoute route{.source_host = AddressOn(channel, from), .target_host = AddressOn(channel, to)};
  const size_t position = PositionOf(channel, from);
  if (channel.ring[(position + 1) % channel.ring.size()] == to) {
    if (!channel.source_ports.empty()) route.source_port = channel.source_ports[position];
    return route;
  }
  for (const LanePort& lane : channel.other_lanes) {
    if (lane.from == from && lane.to == to) route.source_port = lane.source_port;
  }
  return route;
}

std::string AddressOn(const ChannelStrategy& channel, HostIndex host) {
  return channel.addresses.empty() ? "" : channel.addresses[PositionOf(channel, host)];
}

ChannelOrders OrdersOf(const Strategy& strategy) {
  ChannelOrders orders;
  for (const ChannelStrategy& channel : strategy.channels) {
    orders.rings.push_back(channel.ring);
    std::vector<LocalIndex>& homes = orders.homes.emplace_back(channel.homes.size());
    for (size_t i = 0; i < channel.homes.size(); ++i) {
      homes[static_cast<size_t>(channel.ring[i].value())] = channel.homes[i];
    }
  }
  return orders;
}

int MessageLanes(const LaneShape& shape, int hosts) {
  const uint64_t peers = static_cast<uint64_t>(std::max(hosts - 1, 1));
  const uint64_t lanes = kMaxMessageLaneBytes / (peers * MessageLaneBytes(shape));
  return static_cast<int>(std::clamp<uint64_t>(lanes, 1, kMaxChannels));
}

int MaxPeers(const Strategy& strategy) {
  const uint64_t peers = kMaxLaneMemoryBytes / std::max<uint64_t>(PeerBytes(strategy), 1);
  return static_cast<int>(std::min<uint64_t>(peers, kMaxHosts));
}

namespace {

absl::StatusOr<uint16_t> PortFromProto(uint32_t port, int channel) {
  if (port <= std::numeric_limits<uint16_t>::max()) return static_cast<uint16_t>(port);
  return absl::InvalidArgumentError(
      absl::StrCat("strategy: channel ", channel, ": source port ", port, " is above 65535"));
}

absl::StatusOr<ChannelStrategy> ChannelFromProto(const strategy::ChannelStrategy& message,
                                                 int index) {
  ChannelStrategy channel;
  channel.ring.reserve(message.ring_size());
  for (int32_t host : message.ring()) channel.ring.push_back(HostIndex(host));
  channel.source_ports.reserve(message.source_ports_size());
  for (uint32_t port : message.source_ports()) {
    MCCS_ASSIGN_OR_RETURN(channel.source_ports.emplace_back(), PortFromProto(port, index));
  }
  channel.addresses.assign(message.addresses().begin(), message.addresses().end());
  for (const strategy::LanePort& lane : message.other_lanes()) {
    MCCS_ASSIGN_OR_RETURN(const uint16_t port, PortFromProto(lane.source_port(), index));
    channel.other_lanes.push_back(
        {.from = HostIndex(lane.from()), .to = HostIndex(lane.to()), .source_port = port});
  }
  for (const int32_t home : message.homes()) channel.homes.push_back(LocalIndex(home));
  return channel;
}

void ToProto(const CostParameters& costs, strategy::CostParameters* out) {
  out->set_operation_us(costs.operation_us);
  out->set_hop_us(costs.hop_us);
  out->set_slice_us(costs.slice_us);
  out->set_lane_bytes_per_us(costs.lane_bytes_per_us);
  out->set_host_bytes_per_us(costs.host_bytes_per_us);
  out->set_local_bytes_per_us(costs.local_bytes_per_us);
}

CostParameters CostsFromProto(const strategy::CostParameters& costs) {
  return {.operation_us = costs.operation_us(),
          .hop_us = costs.hop_us(),
          .slice_us = costs.slice_us(),
          .lane_bytes_per_us = costs.lane_bytes_per_us(),
          .host_bytes_per_us = costs.host_bytes_per_us(),
          .local_bytes_per_us = costs.local_bytes_per_us()};
}

void ToProto(const ChoiceParameters& value, strategy::AlgorithmChoice* message) {
  ToProto(value.costs, message->mutable_costs());
  if (value.configured_costs.has_value())
    ToProto(*value.configured_costs, message->mutable_configured_costs());
  for (const AlgorithmRule& rule : value.rules) {
    strategy::AlgorithmRule* entry = message->add_rules();
    entry->set_kind(static_cast<uint32_t>(rule.kind));
    entry->set_algorithm(static_cast<strategy::Algorithm>(rule.algorithm));
    entry->set_min_bytes(rule.min_bytes);
    entry->set_max_bytes(rule.max_bytes);
  }
  message->set_operator_rules(value.operator_rules);
}

absl::StatusOr<ChoiceParameters> ChoiceFromProto(const strategy::AlgorithmChoice& message) {
  ChoiceParameters value;
  if (message.has_costs()) value.costs = CostsFromProto(message.costs());
  if (message.has_configured_costs())
    value.configured_costs = CostsFromProto(message.configured_costs());
  for (const strategy::AlgorithmRule& rule : message.rules()) {
    // Check before the conversion to narrower types.
    if (rule.kind() >= kOpKinds || rule.algorithm() < 0 || rule.algorithm() >= kAlgorithms) {
      return absl::InvalidArgumentError(absl::StrCat("strategy: algorithms: unknown kind ",
                                                     rule.kind(), " or algorithm ",
                                                     static_cast<int>(rule.algorithm())));
    }
    value.rules.push_back({.kind = static_cast<OpKind>(rule.kind()),
                           .algorithm = static_cast<Algorithm>(rule.algorithm()),
                           .min_bytes = rule.min_bytes(),
                           .max_bytes = rule.max_bytes()});
  }
  value.operator_rules = message.operator_rules();
  return value;
}

}  // namespace

void ToProto(const Strategy& value, strategy::Strategy* message) {
  message->Clear();
  message->set_epoch(value.epoch.value());
  for (const ChannelStrategy& channel : value.channels) {
    strategy::ChannelStrategy* out = message->add_channels();
    for (HostIndex host : channel.ring) out->add_ring(host.value());
    for (uint16_t port : channel.source_ports) out->add_source_ports(port);
    for (const std::string& address : channel.addresses) out->add_addresses(address);
    for (const LanePort& lane : channel.other_lanes) {
      strategy::LanePort* port = out->add_other_lanes();
      port->set_from(lane.from.value());
      port->set_to(lane.to.value());
      port->set_source_port(lane.source_port);
    }
    for (const LocalIndex home : channel.homes) out->add_homes(home.value());
  }
  message->mutable_lanes()->set_slots(value.lanes.slots);
  message->mutable_lanes()->set_slot_bytes(value.lanes.slot_bytes);
  message->set_skew(value.skew);
  ToProto(value.algorithms, message->mutable_algorithms());
  message->set_origin(value.origin);
}

absl::StatusOr<Strategy> StrategyFromProto(const strategy::Strategy& message, int hosts) {
  if (message.channels_size() > kMaxChannels) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: ", message.channels_size(),
                                                   " channels: expected 1 to ", kMaxChannels));
  }
  Strategy value;
  value.epoch = Epoch(message.epoch());
  for (int i = 0; i < message.channels_size(); ++i) {
    MCCS_ASSIGN_OR_RETURN(ChannelStrategy channel, ChannelFromProto(message.channels(i), i));
    value.channels.push_back(std::move(channel));
  }
  value.lanes.slots = message.lanes().slots();
  value.lanes.slot_bytes = message.lanes().slot_bytes();
  value.skew = message.skew();
  value.origin = message.origin();
  MCCS_ASSIGN_OR_RETURN(value.algorithms, ChoiceFromProto(message.algorithms()));
  MCCS_RETURN_IF_ERROR(ValidateStrategy(value, hosts));
  return value;
}

}  // namespace mccs
