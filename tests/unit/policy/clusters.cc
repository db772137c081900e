#include "tests/unit/policy/clusters.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

constexpr int kPorts = 4000;

}  // namespace

std::shared_ptr<const Topology> RoutedLeafSpine(const LeafSpineShape& shape) {
  auto topology = std::make_shared<Topology>(LeafSpine(shape));
  for (const Topology::Host& host : topology->hosts()) {
    for (size_t i = 0; i < std::min(host.gpus.size(), host.nics.size()); ++i) {
      if (topology->gpu(host.gpus[i]).near_nics.empty())
        topology->SetNear(host.gpus[i], host.nics[i]);
    }
  }
  SourcePortMapping mapping;
  mapping.kind = SourcePortMapping::Kind::kRules;
  const int per_spine = kPorts / shape.spines;
  mapping.candidates = {61000, static_cast<uint16_t>(60999 + per_spine * shape.spines)};
  for (int s = 0; s < shape.spines; ++s) {
    PortRule rule;
    rule.ports.first = static_cast<uint16_t>(61000 + per_spine * s);
    rule.ports.last = static_cast<uint16_t>(rule.ports.first + per_spine - 1);
    rule.via.resize(topology->arc_count());
    const SwitchId spine = *topology->FindSwitch(absl::StrCat("spine", s));
    for (const auto& [arc, to] : topology->NeighboursOf(spine)) rule.via[arc.value() ^ 1] = true;
    mapping.rules.push_back(std::move(rule));
  }
  topology->SetSourcePorts(std::move(mapping));
  return topology;
}

ClusterView ViewOf(std::shared_ptr<const Topology> topology) {
  ClusterView view;
  for (size_t h = 0; h < topology->hosts().size(); ++h) {
    const Topology::Host& host = topology->hosts()[h];
    HostView seen = {.position = topology->PositionOf(HostId(static_cast<int32_t>(h))),
                     .gpus = static_cast<int>(host.gpus.size()),
                     .ready = true};
    for (const NicId id : host.nics) {
      const Topology::Nic& nic = topology->nic(id);
      std::string address = nic.address;
      if (address.empty()) address = absl::StrCat("10.", h, ".0.", seen.nics.size());
      seen.nics.push_back({.name = nic.name, .addresses = {std::move(address)}});
    }
    seen.peer_address = seen.nics.front().addresses.front();
    seen.peer_port = kPeerPort;
    view.hosts.push_back(std::move(seen));
  }
  std::sort(view.hosts.begin(), view.hosts.end(),
            [](const HostView& a, const HostView& b) { return a.position < b.position; });
  view.topologies = {std::move(topology)};
  return view;
}

CommunicatorView& AddCommunicator(ClusterView* view, uint64_t id, const std::string& tenant,
                                  const std::vector<std::string>& hosts,
                                  const std::vector<int>& gpus, int channels) {
  CommunicatorView communicator;
  communicator.id = CommId(id);
  communicator.tenant = tenant;
  communicator.owner.name = tenant;
  communicator.hosts = hosts;
  int rank = 0;
  for (size_t h = 0; h < hosts.size(); ++h) {
    communicator.gpus.push_back(gpus);
    communicator.first_ranks.push_back(rank);
    rank += static_cast<int>(gpus.size());
  }
  communicator.strategy.set_epoch(1);
  for (int c = 0; c < channels; ++c) {
    auto* channel = communicator.strategy.add_channels();
    for (size_t h = 0; h < hosts.size(); ++h) channel->add_ring(static_cast<int>(h));
  }
  view->communicators.push_back(std::move(communicator));
  return view->communicators.back();
}

}  // namespace mccs
