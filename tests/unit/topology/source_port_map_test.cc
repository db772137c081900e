#include "topology/source_port_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/golden.h"
#include "tests/unit/topology/small_topologies.h"
#include "topology/linux_multipath_hash.h"
#include "topology/topology_reader.h"

namespace mccs {
namespace source_port_map_test {

using testing::HasSubstr;

// Marks all arcs into the named switches, by arc.
std::vector<bool> Into(const Topology& topology, std::initializer_list<const char*> names) {
  std::vector<bool> via(topology.arc_count());
  for (const char* name : names) {
    for (const auto& [arc, to] : topology.NeighboursOf(topology.FindSwitch(name).value()))
      via[arc.value() ^ 1] = true;
  }
  return via;
}

FlowEnds Ends(const Topology& topology, const char* from, const char* to) {
  return {.from = topology.FindNic(from).value(),
          .to = topology.FindNic(to).value(),
          .protocol = kProtocolTcp,
          .destination_port = 7400};
}

// By path: the candidate ports that lead over it, ascending.
absl::StatusOr<std::vector<std::vector<uint16_t>>> PortsByPath(const Topology& topology,
                                                               EcmpPaths& paths, SourcePortMap& map,
                                                               const FlowEnds& flow) {
  std::vector<std::vector<uint16_t>> ports(paths.Between(flow.from, flow.to).size());
  const SourcePortRange& candidates = topology.source_ports().candidates;
  for (uint32_t port = candidates.first; port <= candidates.last; ++port) {
    const auto path = map.PathOf(flow, static_cast<uint16_t>(port));
    if (!path.ok()) return path.status();
    if (*path) ports[(*path)->value()].push_back(static_cast<uint16_t>(port));
  }
  return ports;
}

TEST(SourcePortMap, RulesOfThePapersTestbedSplitThePortsOverTheSpines) {
  const auto topology =
      ParseTopology(ContentOf("examples/topologies/paper-testbed.yaml"), "paper-testbed.yaml");
  ASSERT_TRUE(topology.ok()) << topology.status();
  EcmpPaths paths(*topology);
  SourcePortMap map(*topology, paths);
  const auto ports = PortsByPath(*topology, paths, map, Ends(*topology, "h1/nic0", "h3/nic1"));
  ASSERT_TRUE(ports.ok()) << ports.status();
  ASSERT_EQ(ports->size(), 2u);
  EXPECT_EQ((*ports)[0].size(), 2000u);
  EXPECT_EQ((*ports)[0].front(), 61000);
  EXPECT_EQ((*ports)[1].front(), 63000);
  EXPECT_EQ((*ports)[1].back(), 64999);
  const auto near = PortsByPath(*topology, paths, map, Ends(*topology, "h1/nic0", "h5/nic0"));
  ASSERT_TRUE(near.ok());
  ASSERT_EQ(near->size(), 1u);
  EXPECT_EQ((*near)[0].size(), 4000u);
}

TEST(SourcePortMap, PortsWithoutARuleHaveNoKnownPath) {
  Topology topology = LeafSpine({});
  topology.SetSourcePorts(
      {.kind = SourcePortMapping::Kind::kRules,
       .candidates = {100, 109},
       .rules = {{.ports = {100, 102}, .at = {}, .via = Into(topology, {"spine1"})}},
       .hash = {}});
  EcmpPaths paths(topology);
  SourcePortMap map(topology, paths);
  const FlowEnds ends = Ends(topology, "h0/nic0", "h2/nic0");
  EXPECT_EQ(*map.PathOf(ends, 102), PathIndex(1));
  EXPECT_EQ(*map.PathOf(ends, 103), std::nullopt);
  const auto ports = PortsByPath(topology, paths, map, ends);
  ASSERT_TRUE(ports.ok());
  EXPECT_TRUE((*ports)[0].empty());
  EXPECT_EQ((*ports)[1].size(), 3u);
}

TEST(SourcePortMap, AppliesRulesAtEverySwitch) {
  Topology topology = ThreeTiers();
  const auto at = [&](const char* name) {
    std::vector<bool> mask(topology.switches().size());
    mask[topology.FindSwitch(name)->value()] = true;
    return mask;
  };
  topology.SetSourcePorts(
      {.kind = SourcePortMapping::Kind::kRules,
       .candidates = {1, 20},
       .rules = {{.ports = {1, 10}, .at = {}, .via = Into(topology, {"agg1", "core3"})},
                 {.ports = {11, 20}, .at = {}, .via = Into(topology, {"agg0"})},
                 {.ports = {11, 15}, .at = at("agg0"), .via = Into(topology, {"core1"})}},
       .hash = {}});
  EcmpPaths paths(topology);
  SourcePortMap map(topology, paths);
  const FlowEnds far = Ends(topology, "h0/nic0", "h2/nic0");
  EXPECT_EQ(*map.PathOf(far, 1), PathIndex(3));   // agg1, core3
  EXPECT_EQ(*map.PathOf(far, 11), PathIndex(1));  // agg0, core1
  EXPECT_EQ(*map.PathOf(far, 16), std::nullopt);  // agg0, then unknown
  EXPECT_EQ(*map.PathOf(Ends(topology, "h0/nic0", "h1/nic0"), 16), PathIndex(0));
}

Topology Hashing(Topology topology, uint32_t fields = kHashAllFields) {
  topology.SetSourcePorts({.kind = SourcePortMapping::Kind::kHash,
                           .candidates = {61000, 65535},
                           .rules = {},
                           .hash = {.seed = 7, .fields = fields}});
  return topology;
}

// Two hosts with addresses behind two leaves.
Topology WithAddresses(int spines) {
  Topology topology("addresses");
  const RackId rack = topology.AddRack("r");
  for (int s = 0; s < spines; ++s) topology.AddSwitch("spine" + std::to_string(s));
  for (int l = 0; l < 2; ++l) {
    const SwitchId leaf = topology.AddSwitch("leaf" + std::to_string(l));
    topology.AddNic(topology.AddHost("h" + std::to_string(l), rack, 1), "nic0", leaf, 1,
                    "10.0." + std::to_string(l) + ".1");
    for (int s = 0; s < spines; ++s)
      topology.AddLink(std::to_string(l) + "-" + std::to_string(s), leaf, SwitchId(s), 1);
  }
  return topology;
}

TEST(SourcePortMap, AHashSpreadsThePortsOverAllPaths) {
  const Topology topology = Hashing(WithAddresses(16));
  EcmpPaths paths(topology);
  SourcePortMap map(topology, paths);
  const FlowEnds ends = Ends(topology, "h0/nic0", "h1/nic0");
  const auto ports = PortsByPath(topology, paths, map, ends);
  ASSERT_TRUE(ports.ok()) << ports.status();
  ASSERT_EQ(ports->size(), 16u);
  size_t total = 0;
  for (size_t path = 0; path < ports->size(); ++path) {
    total += (*ports)[path].size();
    EXPECT_NEAR((*ports)[path].size(), 4536 / 16.0, 100) << "path " << path;
    EXPECT_TRUE(std::is_sorted((*ports)[path].begin(), (*ports)[path].end()));
    EXPECT_EQ(*map.PathOf(ends, (*ports)[path].front()), PathIndex(static_cast<int32_t>(path)));
  }
  EXPECT_EQ(total, 4536u);
  // The choice of a switch with this seed for one of the ports.
  const FiveTuple tuple = {.source_address = 0x0a000001,
                           .destination_address = 0x0a000101,
                           .protocol = kProtocolTcp,
                           .source_port = (*ports)[9][5],
                           .destination_port = 7400};
  EXPECT_EQ(LinuxNextHop(LinuxMultipathHash(tuple, kHashAllFields, 7), 16), 9u);
}

TEST(SourcePortMap, TheDestinationPortAndProtocolMatter) {
  const Topology topology = Hashing(WithAddresses(2));
  EcmpPaths paths(topology);
  SourcePortMap map(topology, paths);
  FlowEnds ends = Ends(topology, "h0/nic0", "h1/nic0");
  const auto tcp = PortsByPath(topology, paths, map, ends);
  ends.protocol = kProtocolUdp;
  const auto udp = PortsByPath(topology, paths, map, ends);
  ends.destination_port = 4791;
  EXPECT_NE(*tcp, *udp);
  EXPECT_NE(*udp, *PortsByPath(topology, paths, map, ends));
}

TEST(SourcePortMap, DownLinkIsNotANextHop) {
  const Topology topology = Hashing(WithAddresses(3));
  std::vector<bool> down(topology.links().size());
  down[topology.FindLink("0-1")->value()] = true;
  EcmpPaths paths(topology, down);
  SourcePortMap map(topology, paths);
  const auto ports = PortsByPath(topology, paths, map, Ends(topology, "h0/nic0", "h1/nic0"));
  ASSERT_TRUE(ports.ok());
  ASSERT_EQ(ports->size(), 2u);
  EXPECT_EQ((*ports)[0].size() + (*ports)[1].size(), 4536u);
}

TEST(SourcePortMap, ReportsUnknownMappings) {
  const Topology probed = LeafSpine({});
  EcmpPaths paths(probed);
  const auto by_probe = SourcePortMap(probed, paths).PathOf(Ends(probed, "h0/nic0", "h2/nic0"), 1);
  EXPECT_EQ(by_probe.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(by_probe.status().message(), HasSubstr("by probing"));

  const Topology hashed = Hashing(LeafSpine({}));
  EcmpPaths more(hashed);
  const auto no_address = SourcePortMap(hashed, more).PathOf(Ends(hashed, "h0/nic0", "h2/nic0"), 1);
  EXPECT_EQ(no_address.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(no_address.status().message(), HasSubstr("NIC h0/nic0 has no IPv4 address"));
}

// Compares FindPort with PortsByPath, which checks each port.
void CheckFoundPorts(const Topology& topology, const FlowEnds& ends) {
  EcmpPaths paths(topology);
  SourcePortMap map(topology, paths);
  const auto ports = PortsByPath(topology, paths, map, ends);
  ASSERT_TRUE(ports.ok()) << ports.status();
  for (size_t p = 0; p < ports->size(); ++p) {
    const PathIndex path(static_cast<int32_t>(p));
    std::set<uint16_t> found;
    const auto next = [&](uint64_t start, SourcePortRange limits) {
      return *map.FindPort(ends, path, limits, start,
                           [&](uint16_t port) { return !found.contains(port); });
    };
    const SourcePortRange all = {0, 65535};
    while (const std::optional<uint16_t> port = next(found.size() * 7919, all)) {
      ASSERT_TRUE(found.insert(*port).second);
      ASSERT_LE(found.size(), (*ports)[p].size());
    }
    EXPECT_EQ(std::vector<uint16_t>(found.begin(), found.end()), (*ports)[p]);
    if (found.empty()) continue;
    const uint16_t lowest = *found.begin();
    found.clear();
    EXPECT_EQ(next(12345, {lowest, lowest}), lowest);
    EXPECT_EQ(next(0, {0, static_cast<uint16_t>(lowest - 1)}), std::nullopt);
  }
}

TEST(SourcePortMap, FindsEachPortOfAPathByRules) {
  Topology topology = LeafSpine({});
  // The second rule's range contains the first's, and some ports have no rule.
  topology.SetSourcePorts(
      {.kind = SourcePortMapping::Kind::kRules,
       .candidates = {100, 159},
       .rules = {{.ports = {120, 129}, .at = {}, .via = Into(topology, {"spine1"})},
                 {.ports = {90, 140}, .at = {}, .via = Into(topology, {"spine0"})}},
       .hash = {}});
  CheckFoundPorts(topology, Ends(topology, "h0/nic0", "h2/nic0"));
  CheckFoundPorts(topology, Ends(topology, "h0/nic0", "h1/nic0"));
}

TEST(SourcePortMap, FindsEachPortOfAPathByHash) {
  const Topology topology = Hashing(WithAddresses(4));
  CheckFoundPorts(topology, Ends(topology, "h0/nic0", "h1/nic0"));
}

}  // namespace source_port_map_test
}  // namespace mccs
