#include "tests/unit/topology/small_topologies.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "topology/ecmp_paths.h"

namespace mccs {

Topology LeafSpine(const LeafSpineShape& shape) {
  Topology topology("leaf-spine");
  std::vector<SwitchId> spines;
  for (int s = 0; s < shape.spines; ++s)
    spines.push_back(topology.AddSwitch(absl::StrCat("spine", s)));
  int host = 0;
  for (int r = 0; r < shape.racks; ++r) {
    const RackId rack = topology.AddRack(absl::StrCat("r", r));
    const std::string leaf_name = absl::StrCat("leaf", r);
    const SwitchId leaf = topology.AddSwitch(leaf_name);
    for (int h = 0; h < shape.hosts_per_rack; ++h, ++host) {
      const HostId id = topology.AddHost(absl::StrCat("h", host), rack, shape.nics_per_host);
      for (int n = 0; n < shape.nics_per_host; ++n)
        topology.AddNic(id, absl::StrCat("nic", n), leaf, shape.nic_bps);
    }
    for (int s = 0; s < shape.spines; ++s) {
      topology.AddLink(absl::StrCat(leaf_name, "-spine", s), leaf, spines[s], shape.uplink_bps);
    }
  }
  return topology;
}

Topology ThreeTiers() {
  Topology topology("three-tiers");
  std::vector<SwitchId> cores;
  for (int c = 0; c < 4; ++c) cores.push_back(topology.AddSwitch(absl::StrCat("core", c)));
  for (int p = 0; p < 2; ++p) {
    const PodId pod = topology.AddPod(absl::StrCat("p", p));
    std::vector<SwitchId> aggs;
    for (int a = 2 * p; a < 2 * p + 2; ++a) {
      aggs.push_back(topology.AddSwitch(absl::StrCat("agg", a)));
      for (int c = a % 2 * 2; c < a % 2 * 2 + 2; ++c)
        topology.AddLink(absl::StrCat("agg", a, "-core", c), aggs.back(), cores[c], 100);
    }
    for (int l = 2 * p; l < 2 * p + 2; ++l) {
      const RackId rack = topology.AddRack(absl::StrCat("r", l), pod);
      const SwitchId leaf = topology.AddSwitch(absl::StrCat("leaf", l));
      topology.AddNic(topology.AddHost(absl::StrCat("h", l), rack, 1), "nic0", leaf, 100);
      for (int a = 0; a < 2; ++a)
        topology.AddLink(absl::StrCat("leaf", l, "-agg", 2 * p + a), leaf, aggs[a], 100);
    }
  }
  return topology;
}

std::vector<FlowDemand> RandomFlows(const Topology& topology, size_t count, double unit_bps,
                                    std::mt19937& random) {
  EcmpPaths paths(topology);
  const auto nics = static_cast<uint32_t>(topology.nics().size());
  std::vector<FlowDemand> flows;
  while (flows.size() < count) {
    const NicId from(static_cast<int32_t>(random() % nics));
    const NicId to(static_cast<int32_t>(random() % nics));
    if (topology.nic(from).host == topology.nic(to).host) continue;
    const PathSet set = paths.Between(from, to);
    FlowDemand flow;
    flow.path = set[PathIndex(static_cast<int32_t>(random() % set.size()))];
    constexpr double kWeights[] = {1, 1, 1, 2, 3, 0.5, 1e-3, 1e3};
    flow.weight = kWeights[random() % std::size(kWeights)];
    if (random() % 3 == 0) flow.demand_bps = unit_bps * (random() % 16);
    if (random() % 4 == 0) flow.guarantee_bps = unit_bps * (random() % 4);
    if (random() % 4 == 0) flow.cap_bps = flow.guarantee_bps + unit_bps * (random() % 8);
    flows.push_back(flow);
  }
  return flows;
}

}  // namespace mccs
