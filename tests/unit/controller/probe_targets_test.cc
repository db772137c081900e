#include "controller/measurement/probe_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/state/resolved_view.h"
#include "tests/unit/objects/documents.h"
#include "tests/unit/policy/clusters.h"

namespace mccs {
namespace probe_targets_test {

using testing::IsEmpty;

// h0 and h1 at leaf0, h2 at leaf1, and two spines.
std::string Fabric(const std::string& mapping = "probe", const std::string& more = "") {
  return Document(
      "Topology", "t",
      absl::StrCat("  racks: [{name: \"r[0-1]\"}]\n"
                   "  switches: [{name: \"leaf[0-1],spine[0-1]\", addresses: "
                   "[\"10.255.0.[1-4]\"]}]\n"
                   "  hosts:\n"
                   "    - {name: \"h[0-1]\", rack: r0, gpus: 1, nics: [{name: nic0, switch: leaf0, "
                   "capacity: 100Gbit/s, address: \"10.0.0.[1-2]\"}]}\n"
                   "    - {name: h2, rack: r1, gpus: 1, nics: [{name: nic0, switch: leaf1, "
                   "capacity: 100Gbit/s, address: 10.0.1.1}]}\n"
                   "  links: [{ends: [\"leaf[0-1]\", \"spine[0-1]\"], capacity: 50Gbit/s}]\n"
                   "  source_ports: {mapping: ",
                   mapping, more, "}\n"));
}

class ProbeTargetsTest : public testing::Test {
 protected:
  // With the policy's name and parameters.
  explicit ProbeTargetsTest() { Use(Fabric(), "  type: fair_flow\n"); }

  void Use(const std::string& fabric, const std::string& policy) {
    objects_ = After({}, Together({fabric, PolicyDocument("p", policy)}));
    view_ = ViewOf(TopologyOf(*objects_.Find({ObjectKind::kTopology, "t"})).topology);
    view_.topologies.clear();
  }
  std::vector<ProbeTarget> Targets() const { return Targets(view_); }
  std::vector<ProbeTarget> Targets(const ClusterView& view) const {
    const ClusterView resolved = ResolveView(view, objects_);
    return ProbeTargets(objects_, resolved, Fabrics(resolved));
  }
  void Learn(const FiveTuple& flow, Hops hops) {
    auto probed = std::make_shared<ProbedPaths>();
    if (view_.probed != nullptr) *probed = *view_.probed;
    probed->Set(flow, std::move(hops));
    view_.probed = std::move(probed);
  }

  ObjectSet objects_;
  ClusterView view_;
};

TEST_F(ProbeTargetsTest, BetweenTwoNicsSomePortsAreTried) {
  AddCommunicator(&view_, 1, "a", {"h0", "h2"});
  const auto targets = Targets();
  ASSERT_EQ(targets.size(), 2 * kPortsTriedAtATime);
  std::set<FiveTuple> flows;
  for (const ProbeTarget& target : targets) {
    EXPECT_TRUE(flows.insert(target.flow).second);
    EXPECT_EQ(target.host, target.flow.source_address == 0x0a000001 ? "h0" : "h2");
    EXPECT_EQ(target.flow.destination_port, kPeerPort);
    EXPECT_EQ(target.switches, 3);
    EXPECT_FALSE(target.in_use);
    EXPECT_GE(target.flow.source_port, 61000);
  }
  EXPECT_EQ(Targets(), targets);
}

TEST_F(ProbeTargetsTest, IncludesPortsOfAllLanes) {
  AddCommunicator(&view_, 1, "a", {"h0", "h2"});
  CommunicatorView& other = AddCommunicator(&view_, 2, "b", {"h1", "h2"});
  for (const uint32_t port : {61001, 0}) other.strategy.mutable_channels(0)->add_source_ports(port);
  const auto targets = Targets();
  EXPECT_EQ(std::ranges::count_if(targets, [](const auto& w) { return w.in_use; }), 1);
  EXPECT_TRUE(targets.front().in_use);
  EXPECT_EQ(targets.front().host, "h1");
  EXPECT_EQ(targets.front().flow.source_port, 61001);
}

TEST_F(ProbeTargetsTest, StopsAtTheLimitOfPorts) {
  AddCommunicator(&view_, 1, "a", {"h0", "h2"});
  // All ports from h0 lead over one spine; every second port from h2 leads over the other.
  size_t rounds = 0;
  for (auto targets = Targets(); !targets.empty(); targets = Targets(), ++rounds) {
    ASSERT_LT(rounds, 10u);
    for (const ProbeTarget& target : targets) {
      const bool out = target.host == "h0";
      const uint32_t spine = out || target.flow.source_port % 2 == 0 ? 0x0aff0003 : 0x0aff0004;
      const uint32_t leaf0 = 0x0aff0001, leaf1 = 0x0aff0002;
      Learn(target.flow, {out ? leaf0 : leaf1, spine, out ? leaf1 : leaf0});
    }
  }
  EXPECT_EQ(rounds, kPortsTriedPerPath * 2 / kPortsTriedAtATime) << "in vain, from h0";
}

TEST_F(ProbeTargetsTest, StaysWithinThePolicysPorts) {
  Use(Fabric(), "  type: fair_flow\n  parameters: {source_ports: 61998-62001}\n");
  AddCommunicator(&view_, 1, "a", {"h0", "h2"});
  const auto targets = Targets();
  EXPECT_EQ(targets.size(), 8u);
  for (const ProbeTarget& target : targets) {
    EXPECT_GE(target.flow.source_port, 61998);
    EXPECT_LE(target.flow.source_port, 62001);
  }
}

TEST_F(ProbeTargetsTest, NoTargetsWithoutFlowsToPlaceOrUnknownPaths) {
  EXPECT_THAT(Targets(), IsEmpty());
  AddCommunicator(&view_, 1, "a", {"h0", "h1"});
  EXPECT_THAT(Targets(), IsEmpty()) << "one leaf";
  AddCommunicator(&view_, 2, "a", {"h0", "h2"});
  EXPECT_FALSE(Targets().empty());
  const ClusterView view = view_;
  Use(Fabric(), "  type: locality_ring\n");
  EXPECT_THAT(Targets(view), IsEmpty());
  Use(Fabric("rules", ", rules: [{ports: 61000-61001, via: spine0}]"), "  type: fair_flow\n");
  EXPECT_THAT(Targets(view), IsEmpty());
}

TEST(SameLinks, DependsOnTopologiesAndDrains) {
  const ObjectSet before = After({}, Together({Fabric(), TenantDocument("a", 1)}));
  EXPECT_TRUE(SameLinks(before, before));
  EXPECT_TRUE(SameLinks(before, After(before, TenantDocument("b", 2))));
  EXPECT_FALSE(SameLinks(before, After(before, Fabric("probe", ", candidates: 61000-62000"))));
  EXPECT_FALSE(SameLinks(before, After(before, Document("Drain", "d", "  link: leaf0-spine0\n"))));
  EXPECT_FALSE(SameLinks({}, before));
}

}  // namespace probe_targets_test
}  // namespace mccs
