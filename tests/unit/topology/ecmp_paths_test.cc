#include "topology/ecmp_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/topology/small_topologies.h"

namespace mccs {
namespace ecmp_paths_test {

using testing::ElementsAre;

std::string Show(const Topology& topology, const Path& path) {
  return absl::StrJoin(path, ", ", [&](std::string* out, ArcId arc) {
    absl::StrAppend(out, topology.ArcName(arc));
  });
}

std::vector<std::string> Between(const Topology& topology, EcmpPaths& paths, const char* from,
                                 const char* to) {
  const PathSet set = paths.Between(topology.FindNic(from).value(), topology.FindNic(to).value());
  std::vector<std::string> out;
  for (int32_t i = 0; i < set.size(); ++i) out.push_back(Show(topology, set[PathIndex(i)]));
  return out;
}

TEST(EcmpPaths, OnePathPerSpineInNaturalOrder) {
  const Topology topology = LeafSpine({.spines = 12});
  EcmpPaths paths(topology);
  const auto all = Between(topology, paths, "h0/nic0", "h2/nic0");
  ASSERT_EQ(all.size(), 12u);
  EXPECT_EQ(all[2], "h0/nic0 → leaf0, leaf0 → spine2, spine2 → leaf1, leaf1 → h2/nic0");
  EXPECT_EQ(all[10], "h0/nic0 → leaf0, leaf0 → spine10, spine10 → leaf1, leaf1 → h2/nic0");
}

TEST(EcmpPaths, OnePathWithinARack) {
  const Topology topology = LeafSpine({.nics_per_host = 2});
  EcmpPaths paths(topology);
  EXPECT_THAT(Between(topology, paths, "h0/nic0", "h1/nic1"),
              ElementsAre("h0/nic0 → leaf0, leaf0 → h1/nic1"));
  EXPECT_THAT(Between(topology, paths, "h0/nic0", "h0/nic1"),
              ElementsAre("h0/nic0 → leaf0, leaf0 → h0/nic1"));
}

TEST(EcmpPaths, ParallelLinksAreSeparatePaths) {
  Topology topology = LeafSpine({.spines = 1});
  topology.AddLink("second", topology.FindSwitch("leaf0").value(),
                   topology.FindSwitch("spine0").value(), 100);
  EcmpPaths paths(topology);
  EXPECT_THAT(
      Between(topology, paths, "h0/nic0", "h2/nic0"),
      ElementsAre("h0/nic0 → leaf0, leaf0 → spine0, spine0 → leaf1, leaf1 → h2/nic0",
                  "h0/nic0 → leaf0, leaf0 → spine0 (second), spine0 → leaf1, leaf1 → h2/nic0"));
}

TEST(EcmpPaths, ThreeTiersUseEachCore) {
  const Topology topology = ThreeTiers();
  EcmpPaths paths(topology);
  EXPECT_THAT(Between(topology, paths, "h0/nic0", "h1/nic0"),
              ElementsAre("h0/nic0 → leaf0, leaf0 → agg0, agg0 → leaf1, leaf1 → h1/nic0",
                          "h0/nic0 → leaf0, leaf0 → agg1, agg1 → leaf1, leaf1 → h1/nic0"));
  const auto across = Between(topology, paths, "h0/nic0", "h3/nic0");
  ASSERT_EQ(across.size(), 4u);
  EXPECT_EQ(across[3],
            "h0/nic0 → leaf0, leaf0 → agg1, agg1 → core3, core3 → agg3, agg3 → leaf3, leaf3 → "
            "h3/nic0");
}

TEST(EcmpPaths, SkipLinksThatAreDown) {
  const Topology topology = LeafSpine({.spines = 3});
  std::vector<bool> down(topology.links().size());
  down[topology.FindLink("leaf1-spine1")->value()] = true;
  EcmpPaths paths(topology, down);
  EXPECT_THAT(Between(topology, paths, "h0/nic0", "h2/nic0"),
              ElementsAre("h0/nic0 → leaf0, leaf0 → spine0, spine0 → leaf1, leaf1 → h2/nic0",
                          "h0/nic0 → leaf0, leaf0 → spine2, spine2 → leaf1, leaf1 → h2/nic0"));
  down[topology.FindLink("h0/nic0-leaf0")->value()] = true;
  EcmpPaths none(topology, down);
  EXPECT_TRUE(Between(topology, none, "h0/nic0", "h2/nic0").empty());
  EXPECT_TRUE(Between(topology, none, "h2/nic0", "h0/nic0").empty());
  EXPECT_EQ(Between(topology, none, "h1/nic0", "h2/nic0").size(), 2u);
}

TEST(EcmpPaths, NoneBetweenSeparateFabrics) {
  Topology topology("apart");
  const RackId rack = topology.AddRack("r");
  topology.AddNic(topology.AddHost("h0", rack, 1), "nic0", topology.AddSwitch("a"), 1);
  topology.AddNic(topology.AddHost("h1", rack, 1), "nic0", topology.AddSwitch("b"), 1);
  EcmpPaths paths(topology);
  EXPECT_TRUE(Between(topology, paths, "h0/nic0", "h1/nic0").empty());
}

TEST(EcmpPaths, LimitsTheNumberOfPaths) {
  // Seven stages of four switches between two ends: 16384 paths.
  Topology topology("ladder");
  const RackId rack = topology.AddRack("r");
  std::vector<SwitchId> stage = {topology.AddSwitch("first")};
  topology.AddNic(topology.AddHost("h0", rack, 1), "nic0", stage[0], 1);
  const auto add_stage = [&](int number, int size) {
    std::vector<SwitchId> next;
    for (int i = 0; i < size; ++i) {
      next.push_back(topology.AddSwitch(absl::StrCat("s", number, ".", i)));
      for (const SwitchId from : stage)
        topology.AddLink(absl::StrCat(topology.switch_of(from).name, "-", number, ".", i), from,
                         next.back(), 1);
    }
    stage = next;
  };
  for (int s = 0; s < 7; ++s) add_stage(s, 4);
  add_stage(7, 1);
  topology.AddNic(topology.AddHost("h1", rack, 1), "nic0", stage[0], 1);
  EcmpPaths paths(topology);
  EXPECT_EQ(paths.Between(NicId(0), NicId(1)).size(), kMaxPathsOfPair);
}

// All shortest paths between two switches, by exhaustive search.
std::set<std::vector<ArcId>> TryAll(const Topology& topology, SwitchId from, SwitchId to) {
  std::set<std::vector<ArcId>> shortest;
  size_t length = topology.switches().size();
  std::vector<ArcId> way;
  std::vector<bool> visited(topology.switches().size());
  const std::function<void(SwitchId)> walk = [&](SwitchId at) {
    if (way.size() > length) return;
    if (at == to) {
      if (way.size() < length) shortest.clear();
      length = way.size();
      shortest.insert(way);
      return;
    }
    visited[at.value()] = true;
    for (const auto& [arc, next] : topology.NeighboursOf(at)) {
      if (visited[next.value()]) continue;
      way.push_back(arc);
      walk(next);
      way.pop_back();
    }
    visited[at.value()] = false;
  };
  walk(from);
  return shortest;
}

TEST(EcmpPaths, AreAllShortestPathsOfAnyFabric) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    Topology topology("random");
    const RackId rack = topology.AddRack("r");
    const uint32_t switches = 2 + random() % 6;
    for (uint32_t s = 0; s < switches; ++s) {
      const SwitchId id = topology.AddSwitch(absl::StrCat("s", s));
      topology.AddNic(topology.AddHost(absl::StrCat("h", s), rack, 1), "nic0", id, 1);
    }
    for (uint32_t l = 0; l < random() % 14; ++l) {
      const SwitchId a(random() % switches), b(random() % switches);
      if (a != b) topology.AddLink(absl::StrCat("l", l), a, b, 1);
    }
    EcmpPaths paths(topology);
    for (uint32_t i = 0; i < switches; ++i) {
      for (uint32_t j = 0; j < switches; ++j) {
        if (i == j) continue;
        const PathSet set = paths.Between(NicId(i), NicId(j));
        std::set<std::vector<ArcId>> found;
        for (int32_t p = 0; p < set.size(); ++p) {
          const auto fabric = set.Fabric(PathIndex(p));
          found.emplace(fabric.begin(), fabric.end());
        }
        EXPECT_EQ(static_cast<size_t>(set.size()), found.size()) << "duplicate path";
        EXPECT_EQ(found, TryAll(topology, SwitchId(i), SwitchId(j)));
      }
    }
  }
}

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

}  // namespace ecmp_paths_test
}  // namespace mccs
