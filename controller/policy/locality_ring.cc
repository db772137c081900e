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

}  // namespace

absl::StatusOr<strategy::Strategy> LocalityRing(const ClusterView& view, CommId id,
                                                const LocalityRingOptions& options) {
  const CommunicatorView* subject = nullptr;
  SourcePorts taken(options.ports);
  for (const CommunicatorView& communicator : view.communicators) {
    if (communicator.id == id) {
      subject = &communicator;
    } else {
      taken.TakeAll(communicator);
    }
  }
  if (subject == nullptr) {
    return absl::NotFoundError(absl::StrCat("no communicator ", FormatCommId(id)));
  }

  strategy::Strategy strategy = subject->strategy;
  strategy.set_epoch(strategy.epoch() + 1);
  strategy.set_origin(kLocalityRingName);
  const std::vector<HostIndex> ring = RingOf(view, *subject, options.order);
  for (int c = 0; c < strategy.channels_size(); ++c) {
    strategy::ChannelStrategy* channel = strategy.mutable_channels(c);
    channel->Clear();
    for (HostIndex host : ring) channel->add_ring(host.value());
    if (ring.size() < 2) continue;  // No lanes.
    for (size_t i = 0; i < ring.size(); ++i) {
      const std::string& from = subject->hosts[ring[i].value()];
      const std::string& to = subject->hosts[ring[(i + 1) % ring.size()].value()];
      const auto port = taken.Choose(LaneHash(id, c, static_cast<int>(i)), from, to);
      if (!port) {
        return absl::ResourceExhaustedError(
            absl::StrCat("communicator ", FormatCommId(id), ", channel ", c, ": all source ports ",
                         options.ports.first, " to ", options.ports.last, " from ", from, " to ",
                         to, " are taken"));
      }
      channel->add_source_ports(*port);
    }
  }
  return strategy;
}

}  // namespace mccs
