#include "service/communicator/strategy/strategy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

size_t PositionOf(const ChannelStrategy& channel, HostIndex host) {
  return static_cast<size_t>(std::find(channel.ring.begin(), channel.ring.end(), host) -
                             channel.ring.begin());
}

// 0: not a numeric address, or the wildcard.
int FamilyOf(const std::string& address) {
  if (address == "0.0.0.0" || address == "::") return 0;
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

// REQUIRES: the ring is a permutation.
absl::Status ValidateOtherLanes(const ChannelStrategy& channel, size_t index) {
  const int hosts = static_cast<int>(channel.ring.size());
  const auto known = [&](HostIndex host) { return host.value() >= 0 && host.value() < hosts; };
  // Each lane at most once, which also bounds the time of this check.
  if (channel.other_lanes.size() > channel.ring.size() * channel.ring.size()) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: channel ", index, " has ",
                                                   channel.other_lanes.size(),
                                                   " other lanes between ", hosts, " hosts"));
  }
  std::vector<size_t> position(channel.ring.size());
  for (size_t i = 0; i < channel.ring.size(); ++i) {
    position[static_cast<size_t>(channel.ring[i].value())] = i;
  }
  std::vector<std::pair<HostIndex, HostIndex>> seen;
  seen.reserve(channel.other_lanes.size());
  for (const LanePort& lane : channel.other_lanes) {
    const auto refuse = [&](const std::string& why) {
      return absl::InvalidArgumentError(absl::StrCat("strategy: channel ", index, ": lane from ",
                                                     lane.from.value(), " to ", lane.to.value(),
                                                     " among the other lanes ", why));
    };
    if (!known(lane.from) || !known(lane.to) || lane.from == lane.to) {
      return refuse(absl::StrCat("is not between two of ", hosts, " hosts"));
    }
    const size_t from = position[static_cast<size_t>(lane.from.value())];
    if (channel.ring[(from + 1) % channel.ring.size()] == lane.to) {
      return refuse("is a ring lane: set its port in source_ports");
    }
    seen.emplace_back(lane.from, lane.to);
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy: channel ", index, " lists one of its other lanes twice"));
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
    return absl::InvalidArgumentError(absl::StrCat("strategy: skew ", strategy.skew, " with ",
                                                   strategy.lanes.slots,
                                                   " slots per lane: it must be lower"));
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
  for (const ChannelStrategy& channel : strategy.channels) orders.rings.push_back(channel.ring);
  return orders;
}

int MaxPeers(const Strategy& strategy) {
  const uint64_t peers = kMaxLaneMemoryBytes / std::max<uint64_t>(PeerBytes(strategy), 1);
  return static_cast<int>(std::min<uint64_t>(peers, kMaxHosts));
}

}  // namespace mccs
