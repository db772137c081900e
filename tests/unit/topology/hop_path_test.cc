#include "topology/hop_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/unit/topology/small_topologies.h"
#include "topology/source_port_map.h"

namespace mccs {
namespace hop_path_test {

using testing::HasSubstr;

// Address of the switch: 10.255.0.(1 + its number).
uint32_t AddressOf(SwitchId at) { return 0x0aff0001u + static_cast<uint32_t>(at.value()); }

void GiveAddresses(Topology* topology) {
  for (int32_t i = 0; i < static_cast<int32_t>(topology->switches().size()); ++i)
    topology->AddAddress(SwitchId(i), FormatIpv4(AddressOf(SwitchId(i))));
}

class HopPathTest : public testing::Test {
 protected:
  explicit HopPathTest(Topology topology = ThreeTiers()) : topology_(std::move(topology)) {}

  uint32_t At(const char* name) const { return AddressOf(*topology_.FindSwitch(name)); }
  // From h0 to h2, which are in different pods and have four paths.
  std::optional<PathIndex> PathOf(const Hops& hops) {
    EcmpPaths paths(topology_);
    const NicId from = *topology_.FindNic("h0/nic0"), to = *topology_.FindNic("h2/nic0");
    return PathOfHops(topology_, SwitchAddresses(topology_), paths.Between(from, to), from, hops);
  }

  Topology topology_;
};

TEST_F(HopPathTest, SwitchesIdentifyThePath) {
  GiveAddresses(&topology_);
  EcmpPaths paths(topology_);
  const NicId from = *topology_.FindNic("h0/nic0"), to = *topology_.FindNic("h2/nic0");
  const PathSet between = paths.Between(from, to);
  ASSERT_EQ(between.size(), 4);
  for (int32_t p = 0; p < between.size(); ++p) {
    Hops hops = {AddressOf(topology_.nic(from).attached_to)};
    for (const ArcId arc : between.Fabric(PathIndex(p))) {
      const Topology::Link& link = topology_.link(LinkOf(arc));
      hops.push_back(AddressOf(IsForward(arc) ? link.b : link.a));
    }
    EXPECT_EQ(PathOf(hops), PathIndex(p));
  }
}

TEST_F(HopPathTest, InfersASilentSwitch) {
  GiveAddresses(&topology_);
  // A core is joined to one aggregation switch of each pod.
  EXPECT_EQ(PathOf({0, 0, At("core3"), 0, 0}), PathIndex(3));
  EXPECT_EQ(PathOf({0, At("agg1"), 0, 0, 0}), std::nullopt);  // core2 or core3
  EXPECT_EQ(PathOf({0, 0, 0, 0, 0}), std::nullopt);
}

TEST_F(HopPathTest, RejectsHopsThatMatchNoPath) {
  GiveAddresses(&topology_);
  const Hops good = {At("leaf0"), At("agg0"), At("core1"), At("agg2"), At("leaf2")};
  ASSERT_EQ(PathOf(good), PathIndex(1));
  EXPECT_EQ(PathOf({}), std::nullopt);
  EXPECT_EQ(PathOf(Hops(good.begin(), good.end() - 1)), std::nullopt);
  for (size_t i = 0; i < good.size(); ++i) {
    for (const uint32_t wrong : {At("core0"), At("leaf3"), 0x01020304u}) {
      Hops hops = good;
      hops[i] = wrong;
      EXPECT_TRUE(PathOf(hops) != PathIndex(1)) << i;
    }
  }
}

TEST_F(HopPathTest, OnlyDistinguishingSwitchesNeedAddresses) {
  for (const char* name : {"core0", "core1", "core2", "core3"})
    topology_.AddAddress(*topology_.FindSwitch(name), FormatIpv4(At(name)));
  // The others answer from addresses that are not in the file.
  EXPECT_EQ(PathOf({1, 2, At("core2"), 3, 4}), PathIndex(2));
  EXPECT_EQ(PathOf({1, At("core2"), At("core2"), 3, 4}), std::nullopt);
}

TEST_F(HopPathTest, SwitchMayAnswerFromAnyAddress) {
  GiveAddresses(&topology_);
  topology_.AddAddress(*topology_.FindSwitch("core1"), "192.0.2.1");
  EXPECT_EQ(PathOf({0, 0, 0xc0000201, 0, 0}), PathIndex(1));
}

TEST(HopPath, ParallelLinksAreAmbiguous) {
  Topology topology = LeafSpine({.spines = 2});
  topology.AddLink("second", *topology.FindSwitch("leaf0"), *topology.FindSwitch("spine1"), 1);
  GiveAddresses(&topology);
  EcmpPaths paths(topology);
  const NicId from = *topology.FindNic("h0/nic0"), to = *topology.FindNic("h2/nic0");
  const auto over = [&](const char* spine) {
    return PathOfHops(topology, SwitchAddresses(topology), paths.Between(from, to), from,
                      {0, AddressOf(*topology.FindSwitch(spine)), 0});
  };
  EXPECT_EQ(over("spine0"), PathIndex(0));
  EXPECT_EQ(over("spine1"), std::nullopt);
}

// Four spines, and NICs with addresses.
class ProbedPortsTest : public testing::Test {
 protected:
  ProbedPortsTest() : topology_("probed") {
    const RackId rack = topology_.AddRack("r");
    for (int s = 0; s < 4; ++s) topology_.AddSwitch(absl::StrCat("spine", s));
    for (int l = 0; l < 2; ++l) {
      const SwitchId leaf = topology_.AddSwitch(absl::StrCat("leaf", l));
      for (int n = 0; n < 2; ++n) {
        topology_.AddNic(topology_.AddHost(absl::StrCat("h", 2 * l + n), rack, 1), "nic0", leaf, 1,
                         absl::StrCat("10.0.", l, ".", n + 1));
      }
      for (int s = 0; s < 4; ++s) topology_.AddLink(absl::StrCat(l, "-", s), leaf, SwitchId(s), 1);
    }
    topology_.SetSourcePorts({.kind = SourcePortMapping::Kind::kProbe,
                              .candidates = {61000, 61999},
                              .rules = {},
                              .hash = {}});
  }

  FlowEnds Ends(const char* from, const char* to) const {
    return {.from = *topology_.FindNic(from),
            .to = *topology_.FindNic(to),
            .protocol = kProtocolTcp,
            .destination_port = 7400};
  }
  static FiveTuple Tuple(uint16_t port) {
    return {.source_address = 0x0a000001,
            .destination_address = 0x0a000101,
            .protocol = kProtocolTcp,
            .source_port = port,
            .destination_port = 7400};
  }
  Hops Over(int spine) const {
    return {AddressOf(*topology_.FindSwitch("leaf0")), AddressOf(SwitchId(spine)),
            AddressOf(*topology_.FindSwitch("leaf1"))};
  }

  Topology topology_;
};

bool AnyPort(uint16_t /*port*/) { return true; }

TEST_F(ProbedPortsTest, PortsFollowProbeResults) {
  GiveAddresses(&topology_);
  auto probed = std::make_shared<ProbedPaths>();
  probed->Set(Tuple(61007), Over(2));
  probed->Set(Tuple(61003), Over(0));
  probed->Set(Tuple(61005), Over(2));
  probed->Set(Tuple(61009), {1, 2, 3, 4, 5});
  EcmpPaths paths(topology_);
  SourcePortMap map(topology_, paths, probed);
  const FlowEnds ends = Ends("h0/nic0", "h2/nic0");
  EXPECT_EQ(*map.PathOf(ends, 61003), PathIndex(0));
  EXPECT_EQ(*map.PathOf(ends, 61007), PathIndex(2));
  EXPECT_EQ(*map.PathOf(ends, 61008), std::nullopt);
  EXPECT_EQ(*map.PathOf(ends, 61009), std::nullopt);
  EXPECT_EQ(*map.PathOf(Ends("h1/nic0", "h2/nic0"), 61003), std::nullopt);
  std::set<uint16_t> found;
  for (uint64_t start = 0; start < 4; ++start) {
    const auto port = map.FindPort(ends, PathIndex(2), {0, 65535}, start, AnyPort);
    ASSERT_TRUE(port.ok() && *port);
    found.insert(**port);
  }
  EXPECT_EQ(found, (std::set<uint16_t>{61005, 61007}));
  EXPECT_EQ(**map.FindPort(ends, PathIndex(2), {61006, 61999}, 0, AnyPort), 61007);
  EXPECT_EQ(*map.FindPort(ends, PathIndex(1), {0, 65535}, 0, AnyPort), std::nullopt);
  ASSERT_TRUE(map.Probed(ends).ok());
  EXPECT_EQ((*map.Probed(ends))->size(), 4u);
}

TEST_F(ProbedPortsTest, SinglePathNeedsNoProbe) {
  GiveAddresses(&topology_);
  EcmpPaths paths(topology_);
  SourcePortMap map(topology_, paths);
  const FlowEnds near = Ends("h0/nic0", "h1/nic0");
  EXPECT_EQ(*map.PathOf(near, 61003), PathIndex(0));
  EXPECT_EQ(**map.FindPort(near, PathIndex(0), {61500, 61999}, 3, AnyPort), 61503);
}

TEST_F(ProbedPortsTest, NeedsSwitchAddresses) {
  EcmpPaths paths(topology_);
  SourcePortMap map(topology_, paths);
  const auto path = map.PathOf(Ends("h0/nic0", "h2/nic0"), 61003);
  EXPECT_EQ(path.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(path.status().message(), HasSubstr("set the switches' `addresses`"));
}

}  // namespace hop_path_test
}  // namespace mccs
