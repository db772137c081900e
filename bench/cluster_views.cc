#include "bench/cluster_views.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "topology/linux_multipath_hash.h"

namespace mccs {

SourcePortMapping RulesBySpine(const Topology& topology, int spines, SourcePortRange candidates) {
  SourcePortMapping mapping;
  mapping.kind = SourcePortMapping::Kind::kRules;
  mapping.candidates = candidates;
  const int per_spine = (candidates.last - candidates.first + 1) / spines;
  for (int s = 0; s < spines; ++s) {
    PortRule rule;
    rule.ports.first = static_cast<uint16_t>(candidates.first + per_spine * s);
    rule.ports.last = static_cast<uint16_t>(rule.ports.first + per_spine - 1);
    rule.via.resize(topology.arc_count());
    const SwitchId spine = *topology.FindSwitch(absl::StrCat("spine", s));
    for (const auto& [arc, to] : topology.NeighboursOf(spine)) rule.via[arc.value() ^ 1] = true;
    mapping.rules.push_back(std::move(rule));
  }
  return mapping;
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

CommunicatorView MakeJob(uint64_t id, const std::string& tenant,
                         const std::vector<std::string>& hosts,
                         const std::vector<std::vector<int>>& gpus, int channels) {
  CommunicatorView job;
  job.id = CommId(id);
  job.tenant = tenant;
  job.owner.name = tenant;
  job.hosts = hosts;
  job.gpus = gpus;
  int rank = 0;
  for (const std::vector<int>& of_host : gpus) {
    job.first_ranks.push_back(rank);
    rank += static_cast<int>(of_host.size());
  }
  job.strategy.set_epoch(1);
  for (int c = 0; c < channels; ++c) {
    auto* channel = job.strategy.add_channels();
    for (size_t h = 0; h < hosts.size(); ++h) channel->add_ring(static_cast<int>(h));
  }
  return job;
}

namespace {

constexpr int kRacks = 24;
constexpr int kHostsPerRack = kPaperHosts / kRacks;
constexpr int kSpines = 16;
constexpr uint64_t kLinkBps = 200'000'000'000;

}  // namespace

std::shared_ptr<const Topology> PaperCluster(SourcePortMapping::Kind mapping) {
  auto topology = std::make_shared<Topology>("paper-cluster");
  std::vector<SwitchId> spines;
  for (int s = 0; s < kSpines; ++s) spines.push_back(topology->AddSwitch(absl::StrCat("spine", s)));
  for (int r = 0; r < kRacks; ++r) {
    const RackId rack = topology->AddRack(absl::StrCat("r", r));
    const SwitchId leaf = topology->AddSwitch(absl::StrCat("leaf", r));
    for (int h = 0; h < kHostsPerRack; ++h) {
      const HostId host =
          topology->AddHost(absl::StrCat("h", r * kHostsPerRack + h), rack, kGpusPerHost);
      for (int n = 0; n < kGpusPerHost; ++n) {
        const NicId nic = topology->AddNic(host, absl::StrCat("nic", n), leaf, kLinkBps,
                                           absl::StrCat("10.", r, ".", h, ".", n));
        topology->SetNear(topology->host(host).gpus[n], nic);
      }
    }
    for (int s = 0; s < kSpines; ++s)
      topology->AddLink(absl::StrCat("leaf", r, "-spine", s), leaf, spines[s], kLinkBps);
  }
  if (mapping == SourcePortMapping::Kind::kRules) {
    topology->SetSourcePorts(RulesBySpine(*topology, kSpines, SourcePortMapping().candidates));
  } else {
    SourcePortMapping ports;
    ports.kind = mapping;
    ports.hash = {.seed = 7, .fields = kHashAllFields};
    topology->SetSourcePorts(std::move(ports));
  }
  return topology;
}

}  // namespace mccs
