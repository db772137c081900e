#include "topology/reachability.h"

#include <gtest/gtest.h>

#include "tests/unit/topology/small_topologies.h"

namespace mccs {
namespace reachability_test {

TEST(Reachability, OneFabricReachesAll) {
  EXPECT_TRUE(FindUnreachable(LeafSpine({})).empty());
  EXPECT_TRUE(FindUnreachable(ThreeTiers()).empty());
}

TEST(Reachability, AFabricForEachRailIsEnough) {
  Topology topology("rails");
  const RackId rack = topology.AddRack("r");
  const SwitchId rail0 = topology.AddSwitch("rail0"), rail1 = topology.AddSwitch("rail1");
  for (const char* name : {"h0", "h1"}) {
    const HostId host = topology.AddHost(name, rack, 2);
    topology.AddNic(host, "nic0", rail0, 1);
    topology.AddNic(host, "nic1", rail1, 1);
  }
  EXPECT_TRUE(FindUnreachable(topology).empty());
}

TEST(Reachability, ReportsHostsOfSeparateFabrics) {
  Topology topology("apart");
  const RackId rack = topology.AddRack("r");
  const SwitchId left = topology.AddSwitch("left"), right = topology.AddSwitch("right");
  topology.AddNic(topology.AddHost("h0", rack, 1), "nic0", left, 1);
  const HostId both = topology.AddHost("h1", rack, 1);
  topology.AddNic(both, "nic0", left, 1);
  topology.AddNic(both, "nic1", right, 1);
  topology.AddNic(topology.AddHost("h2", rack, 1), "nic0", right, 1);
  // h1 reaches both, but does not forward packets.
  const auto unreachable = FindUnreachable(topology);
  ASSERT_EQ(unreachable.size(), 1u);
  EXPECT_EQ(unreachable[0].host, HostId(2));
  EXPECT_EQ(unreachable[0].from, HostId(0));
}

TEST(Reachability, DownLinksSeparateComponents) {
  Topology topology("parts");
  const SwitchId a = topology.AddSwitch("a"), b = topology.AddSwitch("b");
  topology.AddSwitch("c");
  const LinkId link = topology.AddLink("a-b", a, b, 1);
  EXPECT_EQ(ComponentsOfSwitches(topology), (std::vector<int32_t>{0, 0, 1}));
  std::vector<bool> down(topology.links().size());
  down[link.value()] = true;
  EXPECT_EQ(ComponentsOfSwitches(topology, down), (std::vector<int32_t>{0, 1, 2}));
}

}  // namespace reachability_test
}  // namespace mccs
