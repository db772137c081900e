#include "topology/guarantees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/topology/small_topologies.h"

namespace mccs {
namespace guarantees_test {

using testing::ElementsAre;

FlowDemand Guaranteed(const Topology& topology, const char* from, const char* to, int path,
                      double guarantee_bps) {
  EcmpPaths paths(topology);
  return {.path = paths.Between(*topology.FindNic(from), *topology.FindNic(to))[PathIndex(path)],
          .guarantee_bps = guarantee_bps};
}

TEST(Guarantees, AcceptsGuaranteesThatFit) {
  const Topology topology = LeafSpine({});
  const std::vector<FlowDemand> flows = {Guaranteed(topology, "h0/nic0", "h2/nic0", 0, 60),
                                         Guaranteed(topology, "h1/nic0", "h3/nic0", 0, 40),
                                         Guaranteed(topology, "h1/nic0", "h3/nic0", 1, 60)};
  EXPECT_TRUE(FindBrokenGuarantees(topology.ArcCapacities(), flows).empty());
}

TEST(Guarantees, AcceptsFractionsThatAddUp) {
  const Topology topology = LeafSpine({});
  const std::vector<FlowDemand> flows(10,
                                      Guaranteed(topology, "h0/nic0", "h2/nic0", 0, 10.0 + 1e-9));
  EXPECT_TRUE(FindBrokenGuarantees(topology.ArcCapacities(), flows).empty());
}

TEST(Guarantees, ReportsLinkAndNumbers) {
  const Topology topology = LeafSpine({.nic_bps = 100'000'000'000, .uplink_bps = 50'000'000'000});
  const std::vector<FlowDemand> flows = {Guaranteed(topology, "h0/nic0", "h2/nic0", 1, 30e9),
                                         Guaranteed(topology, "h0/nic0", "h2/nic0", 1, 0),
                                         Guaranteed(topology, "h1/nic0", "h3/nic0", 1, 32.5e9)};
  const auto broken = FindBrokenGuarantees(topology.ArcCapacities(), flows);
  ASSERT_EQ(broken.size(), 2u);
  EXPECT_THAT(broken[0].flows, ElementsAre(0, 2));
  EXPECT_EQ(topology.ArcName(broken[0].arc), "leaf0 → spine1");
  EXPECT_EQ(topology.ArcName(broken[1].arc), "spine1 → leaf1");
  EXPECT_EQ(broken[0].capacity_bps, 50e9);
  EXPECT_EQ(broken[0].guaranteed_bps, 62.5e9);
}

}  // namespace guarantees_test
}  // namespace mccs
