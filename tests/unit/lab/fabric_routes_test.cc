#include "lab/fabric_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lab/small_fabric.h"

namespace mccs::lab {
namespace fabric_routes_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Ports 61000 to 62999 over spine0, the others over spine1.
Topology WithRules() {
  Topology topology = SmallTopology();
  SourcePortMapping mapping;
  mapping.kind = SourcePortMapping::Kind::kRules;
  for (int i = 0; i < 2; ++i) {
    PortRule rule;
    rule.ports = {static_cast<uint16_t>(61000 + 2000 * i), static_cast<uint16_t>(62999 + 2000 * i)};
    rule.via.assign(topology.arc_count(), false);
    for (const char* leaf : {"leaf0", "leaf1"}) {
      const std::string link = std::string(leaf) + "-spine" + std::to_string(i);
      rule.via[ForwardArc(*topology.FindLink(link)).value()] = true;
    }
    mapping.rules.push_back(rule);
  }
  topology.SetSourcePorts(mapping);
  return topology;
}

std::vector<bool> Down(const FabricPlan& plan, std::string_view link) {
  std::vector<bool> down(plan.cables.size(), false);
  down[plan.topology.FindLink(link)->value()] = true;
  return down;
}

std::string Lines(const FabricPlan& plan, std::string_view node, std::vector<bool> down = {}) {
  return FabricRoutes(plan, std::move(down)).LinesFor(NodeNamed(plan, node));
}

TEST(FabricRoutes, LeafRoutesToLocalNicsAndOverAllSpines) {
  const FabricPlan plan = SmallFabric();
  EXPECT_THAT(Lines(plan, "leaf0"),
              AllOf(HasSubstr("route replace 10.0.1.2 dev p1 scope link src 10.255.0.1\n"),
                    HasSubstr("route replace 10.0.2.1 src 10.255.0.1"
                              " nexthop via 10.255.0.3 dev p2 onlink"
                              " nexthop via 10.255.0.4 dev p3 onlink\n")));
}

TEST(FabricRoutes, SpineHasOnePath) {
  const FabricPlan plan = SmallFabric();
  EXPECT_THAT(Lines(plan, "spine1"),
              HasSubstr("route replace 10.0.2.1 src 10.255.0.4 via 10.255.0.2 dev p1 onlink\n"));
}

TEST(FabricRoutes, AvoidsLinksThatAreDown) {
  const FabricPlan plan = SmallFabric();
  // leaf0, and leaf1, whose packets to leaf0 would be lost at spine0.
  EXPECT_THAT(Lines(plan, "leaf0", Down(plan, "leaf0-spine0")),
              HasSubstr("10.0.2.1 src 10.255.0.1 via 10.255.0.4 dev p3 onlink\n"));
  EXPECT_THAT(Lines(plan, "leaf1", Down(plan, "leaf0-spine0")),
              HasSubstr("10.0.1.1 src 10.255.0.2 via 10.255.0.4 dev p2 onlink\n"));
}

TEST(FabricRoutes, NicWithLinkDownIsUnreachable) {
  const FabricPlan plan = SmallFabric();
  const std::vector<bool> down = Down(plan, "h1/nic0-leaf0");
  EXPECT_THAT(Lines(plan, "leaf0", down), HasSubstr("route replace unreachable 10.0.1.1\n"));
  EXPECT_THAT(Lines(plan, "spine0", down), HasSubstr("route replace unreachable 10.0.1.1\n"));
  EXPECT_THAT(
      Lines(plan, "h1", down),
      AllOf(HasSubstr("route replace default via 10.255.0.1 dev nic1 onlink src 10.0.1.2\n"),
            Not(HasSubstr("nic0"))));
}

TEST(FabricRoutes, HostRoutesBySourceAddress) {
  const FabricPlan plan = SmallFabric();
  EXPECT_EQ(RuleLines(plan, NodeNamed(plan, "h1")),
            "rule add pref 1000 from 10.0.1.1 lookup 2000\n"
            "rule add pref 1001 from 10.0.1.2 lookup 2001\n");
  EXPECT_THAT(
      Lines(plan, "h1"),
      AllOf(HasSubstr("default via 10.255.0.1 dev nic1 onlink src 10.0.1.2 table 2001\n"),
            HasSubstr("unreachable default metric 9999 table 2001\n"),
            HasSubstr("route replace default via 10.255.0.1 dev nic0 onlink src 10.0.1.1\n")));
}

TEST(FabricRoutes, PortRulesHaveTablesOfTheirNextHops) {
  const FabricPlan plan = SmallFabric(WithRules());
  EXPECT_EQ(RuleLines(plan, NodeNamed(plan, "leaf0")),
            "rule add pref 1000 sport 61000-62999 lookup 1000\n"
            "rule add pref 1001 sport 63000-64999 lookup 1001\n");
  EXPECT_THAT(
      Lines(plan, "leaf0"),
      AllOf(HasSubstr("10.0.2.1 table 1000 src 10.255.0.1 via 10.255.0.3 dev p2 onlink\n"),
            HasSubstr("10.0.2.1 table 1001 src 10.255.0.1 via 10.255.0.4 dev p3 onlink\n")));
}

TEST(FabricRoutes, RuleWithoutNextHopContinuesWithNextTable) {
  const FabricPlan plan = SmallFabric(WithRules());
  EXPECT_THAT(Lines(plan, "leaf0", Down(plan, "leaf0-spine1")),
              AllOf(HasSubstr("route replace throw 10.0.2.1 table 1001\n"),
                    HasSubstr("route replace 10.0.2.1 src 10.255.0.1 via 10.255.0.3")));
}

TEST(FabricRoutes, RuleAppliesOnlyAtItsSwitch) {
  Topology topology = WithRules();
  SourcePortMapping mapping = topology.source_ports();
  mapping.rules[0].at.assign(topology.switches().size(), false);
  mapping.rules[0].at[topology.FindSwitch("leaf1")->value()] = true;
  topology.SetSourcePorts(mapping);
  const FabricPlan plan = SmallFabric(std::move(topology));
  EXPECT_EQ(RuleLines(plan, NodeNamed(plan, "leaf0")),
            "rule add pref 1001 sport 63000-64999 lookup 1001\n");
  EXPECT_THAT(Lines(plan, "leaf0"), Not(HasSubstr("table 1000")));
}

}  // namespace fabric_routes_test
}  // namespace mccs::lab
