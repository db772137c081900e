#include "controller/policy/rings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/view/channel_nics.h"
#include "controller/view/flow.h"
#include "proto/same_message.h"
#include "topology/position.h"

namespace mccs {
namespace {

bool HasNoPorts(const strategy::ChannelStrategy& channel) {
  const auto& ports = channel.source_ports();
  return std::all_of(ports.begin(), ports.end(), [](uint32_t port) { return port == 0; });
}

struct RingLane {
  int channel, place, from, to;
};

// Independent of the communicator's id, which differs in each run of a program.
uint64_t Draw(uint64_t seed, const CommunicatorView& communicator, const RingLane& lane) {
  uint64_t draw = Mix(seed + 1);
  const auto add = [&](uint64_t value) { draw = Mix(draw + value + 1); };
  add(static_cast<uint64_t>(lane.channel));
  for (const int host : {lane.from, lane.to}) {
    for (const char c : communicator.hosts[host]) add(static_cast<unsigned char>(c));
    add(0);
    if (host >= static_cast<int>(communicator.gpus.size())) continue;
    for (const int gpu : communicator.gpus[host]) add(static_cast<uint64_t>(gpu));
  }
  return draw;
}

std::optional<uint16_t> DrawPort(const SourcePortRange& range, uint64_t draw,
                                 const SourcePorts::Ends& ends, SourcePorts* taken) {
  const uint32_t count = range.last - range.first + 1u;
  for (uint32_t i = 0; i < count; ++i) {
    const auto port = static_cast<uint16_t>(range.first + (draw + i) % count);
    if (taken->TakeBetween(port, ends)) return port;
  }
  return std::nullopt;
}

// The lane's current port.
uint16_t PortNow(const CommunicatorView& communicator, const RingLane& lane) {
  const strategy::Strategy& now = communicator.strategy;
  if (lane.channel >= now.channels_size()) return 0;
  return PortOfLane(now.channels(lane.channel), lane.from, lane.to);
}

std::optional<uint16_t> PortFor(const CommunicatorView& communicator, const RingLane& lane,
                                const RingPortOptions& options, const SourcePorts::Ends& ends,
                                SourcePorts* taken) {
  if (options.seed)
    return DrawPort(options.ports, Draw(*options.seed, communicator, lane), ends, taken);
  return taken->Choose(options.ports, PortNow(communicator, lane),
                       LaneHash(communicator.id, lane.channel, lane.place), ends);
}

}  // namespace

std::vector<HostIndex> LocalityRingOrder(const ClusterView& view,
                                         const CommunicatorView& communicator,
                                         const std::vector<std::string>& first) {
  std::vector<Position> positions;
  for (const std::string& name : communicator.hosts) {
    const auto host = std::find_if(view.hosts.begin(), view.hosts.end(),
                                   [&](const HostView& h) { return h.position.host == name; });
    positions.push_back(host != view.hosts.end() ? host->position : Position{"", "", name});
  }
  std::vector<HostIndex> ring = LocalityOrder(positions);
  const auto place = [&](HostIndex host) {
    return std::find(first.begin(), first.end(), communicator.hosts[host.value()]) - first.begin();
  };
  std::stable_sort(ring.begin(), ring.end(),
                   [&](HostIndex a, HostIndex b) { return place(a) < place(b); });
  return ring;
}

std::vector<HostIndex> RankRingOrder(const CommunicatorView& communicator) {
  std::vector<HostIndex> ring;
  for (size_t h = 0; h < communicator.hosts.size(); ++h)
    ring.push_back(HostIndex(static_cast<int32_t>(h)));
  const std::vector<int>& ranks = communicator.first_ranks;
  if (ranks.size() != ring.size()) return ring;
  std::stable_sort(ring.begin(), ring.end(),
                   [&](HostIndex a, HostIndex b) { return ranks[a.value()] < ranks[b.value()]; });
  return ring;
}

strategy::Strategy MakeFrame(const CommunicatorView& communicator,
                             const std::vector<HostIndex>& ring,
                             std::span<const FabricHost* const> hosts, const std::string& origin,
                             int channels_per_nic) {
  strategy::Strategy frame = communicator.strategy;
  frame.set_epoch(frame.epoch() + 1);
  frame.set_origin(origin);
  const bool alone = ring.size() < 2;
  const ChannelNics nics =
      alone ? ChannelNics() : ChooseNics(communicator, hosts, channels_per_nic);
  const std::vector<std::vector<int>> homes =
      nics.empty() ? std::vector<std::vector<int>>() : ChooseHomes(communicator, hosts, nics);
  const int channels = nics.empty() ? frame.channels_size() : static_cast<int>(nics.size());
  frame.clear_channels();
  for (int c = 0; c < channels; ++c) {
    strategy::ChannelStrategy* channel = frame.add_channels();
    for (const HostIndex host : ring) channel->add_ring(host.value());
    if (nics.empty()) continue;
    if (!homes[c].empty()) {
      for (const HostIndex host : ring) channel->add_homes(homes[c][host.value()]);
    }
    const bool as_ever = std::all_of(ring.begin(), ring.end(), [&](HostIndex host) {
      return nics[c][host.value()].address == hosts[host.value()]->own_address;
    });
    if (as_ever) continue;
    for (const HostIndex host : ring) channel->add_addresses(nics[c][host.value()].address);
  }
  return frame;
}

bool IsSameStrategy(const strategy::Strategy& a, const strategy::Strategy& b) {
  if (a.channels_size() != b.channels_size()) return false;
  strategy::Strategy renamed = a;
  renamed.set_epoch(b.epoch());
  renamed.set_origin(b.origin());
  for (int c = 0; c < b.channels_size(); ++c) {
    if (HasNoPorts(a.channels(c)) && HasNoPorts(b.channels(c)))
      *renamed.mutable_channels(c)->mutable_source_ports() = b.channels(c).source_ports();
  }
  return IsSameMessage(renamed, b);
}

bool HasFrame(const strategy::Strategy& strategy, const strategy::Strategy& frame) {
  strategy::Strategy with_ports = frame;
  for (int c = 0; c < frame.channels_size() && c < strategy.channels_size(); ++c)
    *with_ports.mutable_channels(c)->mutable_source_ports() = strategy.channels(c).source_ports();
  return IsSameStrategy(with_ports, strategy);
}

absl::StatusOr<std::vector<SourcePorts::Port>> ChooseRingPorts(const CommunicatorView& communicator,
                                                               const strategy::Strategy& frame,
                                                               const RingPortOptions& options,
                                                               SourcePorts* taken) {
  std::vector<SourcePorts::Port> ports;
  for (int c = 0; c < frame.channels_size(); ++c) {
    const strategy::ChannelStrategy& channel = frame.channels(c);
    const int hosts = channel.ring_size();
    if (hosts < 2) continue;  // No lanes.
    for (int i = 0; i < hosts; ++i) {
      const RingLane lane = {c, i, channel.ring(i), channel.ring((i + 1) % hosts)};
      const std::string& from = communicator.hosts[lane.from];
      const std::string& to = communicator.hosts[lane.to];
      const SourcePorts::Ends ends = taken->Between(from, to);
      const auto port = PortFor(communicator, lane, options, ends, taken);
      if (!port) {
        taken->Release(ports);
        return absl::ResourceExhaustedError(
            absl::StrCat("communicator ", FormatCommId(communicator.id), ", channel ", c,
                         ": no free source port between ", from, " and ", to, ": all ports ",
                         options.ports.first, "-", options.ports.last,
                         " are in use; widen `source_ports` or lower `channels_per_nic`"));
      }
      ports.push_back({ends, *port});
    }
  }
  return ports;
}

strategy::Strategy WithRingPorts(strategy::Strategy frame,
                                 std::span<const SourcePorts::Port> ports) {
  for (strategy::ChannelStrategy& channel : *frame.mutable_channels()) {
    if (channel.ring_size() < 2) continue;
    for (int i = 0; i < channel.ring_size(); ++i) channel.add_source_ports(ports[i].port);
    ports = ports.subspan(channel.ring_size());
  }
  return frame;
}

}  // namespace mccs
