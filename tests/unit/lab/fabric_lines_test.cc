#include "lab/fabric_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/lab/small_fabric.h"
#include "topology/linux_multipath_hash.h"

namespace mccs::lab {
namespace fabric_lines_test {

using testing::HasSubstr;
using testing::Not;

// The node's value of sysctl `name`, or "-".
std::string Setting(const FabricPlan& plan, std::string_view node, const std::string& name) {
  for (const Sysctl& sysctl : SysctlsOf(plan, NodeNamed(plan, node))) {
    if (sysctl.name == name) return sysctl.value;
  }
  return "-";
}

TEST(FabricDevices, CreatesCablesBetweenNodes) {
  Topology topology = SmallTopology();
  topology.SetMtu(4000);
  const std::string lines =
      CableLines(SmallFabric(std::move(topology)), {100, 101, 102, 103, 104, 105, 106});
  EXPECT_THAT(lines, HasSubstr("link add name nic1 mtu 4000 netns 105 type veth"
                               " peer name p1 mtu 4000 netns 101\n"));
  // The management network.
  EXPECT_THAT(lines, HasSubstr("link add name mgmt mtu 9000 netns 106 type veth"
                               " peer name m1 mtu 9000 netns 100\n"));
}

TEST(FabricDevices, PortsHaveAliasesWithTheirPeers) {
  const FabricPlan plan = SmallFabric();
  EXPECT_THAT(DeviceLines(plan, NodeNamed(plan, "leaf0")),
              HasSubstr("link set dev p2 alias \"to spine0\" up\n"));
  EXPECT_THAT(DeviceLines(plan, NodeNamed(plan, "h2")),
              HasSubstr("address add 10.0.2.1/32 dev nic0\n"));
}

TEST(FabricDevices, LimitsTheRateAtBothEndsOfALink) {
  const FabricPlan plan = SmallFabric();
  EXPECT_THAT(QueueLines(plan, NodeNamed(plan, "h2")),
              HasSubstr("dev nic0 parent 1: classid 1:1 htb rate 100000000bit ceil 100000000bit"));
  EXPECT_THAT(QueueLines(plan, NodeNamed(plan, "spine0")),
              HasSubstr("dev p1 parent 1: classid 1:1 htb rate 50000000bit ceil 50000000bit"));
  EXPECT_THAT(QueueLines(plan, NodeNamed(plan, "h2")), Not(HasSubstr("mgmt")));
}

TEST(FabricDevices, SwitchesHashTheFiveTupleByAFixedSeed) {
  const FabricPlan plan = SmallFabric();
  EXPECT_EQ(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_policy"), "3");
  EXPECT_EQ(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_fields"), "55");
  EXPECT_NE(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_seed"), "0");
  EXPECT_NE(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_seed"),
            Setting(plan, "spine0", "net.ipv4.fib_multipath_hash_seed"));
  EXPECT_EQ(Setting(plan, "h1", "net.ipv4.fib_multipath_hash_seed"), "-");
}

TEST(FabricDevices, SwitchesUseTheTopologysHash) {
  Topology topology = SmallTopology();
  const SwitchId other = topology.AddSwitch("other", 9);
  topology.AddLink("other", other, *topology.FindSwitch("leaf0"), kMbps);
  SourcePortMapping mapping;
  mapping.kind = SourcePortMapping::Kind::kHash;
  mapping.hash = {.seed = 7, .fields = kHashSourcePort};
  topology.SetSourcePorts(mapping);
  const FabricPlan plan = SmallFabric(std::move(topology));
  EXPECT_EQ(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_seed"), "7");
  EXPECT_EQ(Setting(plan, "other", "net.ipv4.fib_multipath_hash_seed"), "9");
  EXPECT_EQ(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_fields"), "16");
}

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

}  // namespace fabric_lines_test
}  // namespace mccs::lab
