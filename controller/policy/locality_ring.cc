#include "controller/policy/locality_ring.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/policy/source_ports.h"
#include "topology/locality.h"

namespace mccs {
namespace {

// Finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): spreads neighbouring inputs over all
// bits. Not std::hash: the choice must be the same in every build.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t LaneHash(CommId id, int channel, int lane) {
  return Mix(Mix(Mix(id.value()) + static_cast<uint64_t>(channel) + 1) +
             static_cast<uint64_t>(lane) + 1);
}

std::vector<HostIndex> RingOf(const ClusterView& view, const CommunicatorView& communicator,
                              const std::vector<std::string>& order) {
  std::vector<Position> positions;
  for (const std::string& name : communicator.hosts) {
    const auto host = std::find_if(view.hosts.begin(), view.hosts.end(),
                                   [&](const HostView& h) { return h.position.host == name; });
    positions.push_back(host != view.hosts.end() ? host->position : Position{"", "", name});
  }
  std::vector<HostIndex> ring = LocalityOrder(positions);
  const auto place = [&](HostIndex host) {
    return std::find(order.begin(), order.end(), communicator.hosts[host.value()]) - order.begin();
  };
  std::stable_sort(ring.begin(), ring.end(),
                   [&](HostIndex a, HostIndex b) { return place(a) < place(b); });
  return ring;
}

// The port of the lane between these hosts that the channel has now; 0: none, or no such lane.
uint16_t PortNow(const CommunicatorView& communicator, int channel, int from, int to) {
  if (channel >= communicator.strategy.channels_size()) return 0;
  const strategy::ChannelStrategy& now = communicator.strategy.channels(channel);
  for (int i = 0; i < now.ring_size() && i < now.source_ports_size(); ++i) {
    if (now.ring(i) != from || now.ring((i + 1) % now.ring_size()) != to) continue;
    return static_cast<uint16_t>(now.source_ports(i));
  }
  return 0;
}

}  // namespace

absl::StatusOr<strategy::Strategy> LocalityRing(const ClusterView& view,
                                                const CommunicatorView& subject,
                                                const LocalityRingOptions& options,
                                                SourcePorts* taken) {
  strategy::Strategy strategy = subject.strategy;
  strategy.set_epoch(strategy.epoch() + 1);
  strategy.set_origin(kLocalityRingName);
  const std::vector<HostIndex> ring = RingOf(view, subject, options.order);
  for (int c = 0; c < strategy.channels_size(); ++c) {
    strategy::ChannelStrategy* channel = strategy.mutable_channels(c);
    channel->Clear();
    for (HostIndex host : ring) channel->add_ring(host.value());
    if (ring.size() < 2) continue;  // No lanes.
    for (size_t i = 0; i < ring.size(); ++i) {
      const int from_index = ring[i].value();
      const int to_index = ring[(i + 1) % ring.size()].value();
      const std::string& from = subject.hosts[from_index];
      const std::string& to = subject.hosts[to_index];
      const auto port = taken->Choose(options.ports, PortNow(subject, c, from_index, to_index),
                                      LaneHash(subject.id, c, static_cast<int>(i)), from, to);
      if (!port) {
        for (int d = c + 1; d < strategy.channels_size(); ++d)
          strategy.mutable_channels(d)->Clear();
        CommunicatorView begun = subject;
        begun.strategy = strategy;
        taken->GiveBack(begun);
        return absl::ResourceExhaustedError(
            absl::StrCat("communicator ", FormatCommId(subject.id), ", channel ", c,
                         ": all source ports ", options.ports.first, " to ", options.ports.last,
                         " from ", from, " to ", to, " are taken"));
      }
      channel->add_source_ports(*port);
    }
  }
  return strategy;
}

}  // namespace mccs
