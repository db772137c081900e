// A small leaf-spine topology: h1 with two NICs at leaf0, h2 with one at leaf1, two spines.
#ifndef MCCS_TESTS_UNIT_LAB_SMALL_FABRIC_H_
#define MCCS_TESTS_UNIT_LAB_SMALL_FABRIC_H_

#include <utility>

#include "base/check.h"
#include "lab/fabric_plan.h"
#include "topology/topology.h"

namespace mccs::lab {

inline constexpr uint64_t kMbps = 1'000'000;

inline Topology SmallTopology() {
  Topology topology("small");
  const SwitchId leaf0 = topology.AddSwitch("leaf0"), leaf1 = topology.AddSwitch("leaf1");
  const SwitchId spine0 = topology.AddSwitch("spine0"), spine1 = topology.AddSwitch("spine1");
  const HostId h1 = topology.AddHost("h1", topology.AddRack("r0"), 2);
  const HostId h2 = topology.AddHost("h2", topology.AddRack("r1"), 1);
  topology.AddNic(h1, "nic0", leaf0, 100 * kMbps);
  topology.AddNic(h1, "nic1", leaf0, 100 * kMbps);
  topology.AddNic(h2, "nic0", leaf1, 100 * kMbps);
  topology.AddLink("leaf0-spine0", leaf0, spine0, 50 * kMbps);
  topology.AddLink("leaf0-spine1", leaf0, spine1, 50 * kMbps);
  topology.AddLink("leaf1-spine0", leaf1, spine0, 50 * kMbps);
  topology.AddLink("leaf1-spine1", leaf1, spine1, 50 * kMbps);
  return topology;
}

inline FabricPlan SmallFabric(Topology topology = SmallTopology()) {
  absl::StatusOr<FabricPlan> plan = PlanFabric(std::move(topology));
  MCCS_CHECK(plan.ok());
  return *std::move(plan);
}

inline NodeId NodeNamed(const FabricPlan& plan, std::string_view name) {
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    if (plan.nodes[i].name == name) return NodeId(static_cast<int32_t>(i));
  }
  MCCS_CHECK(false);
  return NodeId(0);
}

}  // namespace mccs::lab

#endif  // MCCS_TESTS_UNIT_LAB_SMALL_FABRIC_H_
