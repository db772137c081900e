#include "service/communicator/strategy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

absl::Status ValidateChannel(const ChannelStrategy& channel, size_t index, int hosts) {
  std::vector<bool> seen(hosts, false);
  for (HostIndex host : channel.ring) {
    if (host.value() < 0 || host.value() >= hosts || seen[host.value()]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "strategy: ring of channel ", index, " is no permutation of the ", hosts, " hosts"));
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
  return absl::OkStatus();
}

// Of the lanes with one peer: slots to receive into, and staging for what goes out.
uint64_t PeerBytes(const Strategy& strategy) {
  return 2 * strategy.channels.size() * strategy.lanes.slots * uint64_t{strategy.lanes.slot_bytes};
}

}  // namespace

absl::Status ValidateStrategy(const Strategy& strategy, int hosts) {
  if (strategy.epoch == Epoch(0)) {
    return absl::InvalidArgumentError("strategy: epoch 0; they begin with 1");
  }
  if (strategy.channels.empty() || strategy.channels.size() > kMaxChannels) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: ", strategy.channels.size(),
                                                   " channels; 1 to ", kMaxChannels, " work"));
  }
  if (strategy.lanes.slots < 2 || strategy.lanes.slots > kMaxLaneSlots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy: ", strategy.lanes.slots, " slots per lane; 2 to ", kMaxLaneSlots, " work"));
  }
  if (strategy.lanes.slot_bytes < kMinSlotBytes || strategy.lanes.slot_bytes > kMaxSlotBytes) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: slots of ", strategy.lanes.slot_bytes,
                                                   " bytes; ", kMinSlotBytes, " to ", kMaxSlotBytes,
                                                   " work"));
  }
  const uint64_t memory = PeerBytes(strategy);
  if (hosts > 1 && memory > kMaxLaneMemoryBytes) {
    return absl::InvalidArgumentError(absl::StrCat("strategy: lanes with ", memory,
                                                   " bytes of memory per host; ",
                                                   kMaxLaneMemoryBytes, " are allowed"));
  }
  if (strategy.skew >= strategy.lanes.slots) {  // The plans' proof against deadlock (plan_check.h).
    return absl::InvalidArgumentError(absl::StrCat("strategy: skew ", strategy.skew, " with ",
                                                   strategy.lanes.slots,
                                                   " slots per lane; it must be less"));
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

bool DifferInPortsAlone(const Strategy& one, const Strategy& other) {
  Strategy moved = other;
  moved.epoch = one.epoch;
  moved.origin = one.origin;
  if (moved.channels.size() != one.channels.size()) return false;
  for (size_t i = 0; i < moved.channels.size(); ++i) {
    moved.channels[i].source_ports = one.channels[i].source_ports;
  }
  return moved == one;
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
