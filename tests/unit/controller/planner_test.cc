#include "controller/planning/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "controller/rates/rate_limits.h"
#include "controller/state/resolved_view.h"
#include "controller/view/flow.h"
#include "tests/unit/golden.h"
#include "tests/unit/mentions.h"
#include "tests/unit/objects/documents.h"
#include "tests/unit/policy/clusters.h"

namespace mccs {
namespace planner_test {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr CommId kFirst{0xa}, kSecond{0xb};

CommunicatorView MakeCommunicator(CommId id, const std::string& tenant) {
  CommunicatorView communicator;
  communicator.id = id;
  communicator.tenant = tenant;
  communicator.hosts = {"h0", "h1", "h2"};
  communicator.strategy.set_epoch(1);
  communicator.strategy.add_channels();
  return communicator;
}

class PlannerTest : public testing::Test {
 protected:
  PlannerTest() {
    for (const char* name : {"h0", "h1", "h2"}) {
      view_.hosts.push_back({.position = {"", "", name}, .gpus = 1, .ready = true});
    }
    view_.communicators = {MakeCommunicator(kFirst, "uid 1"), MakeCommunicator(kSecond, "uid 2")};
  }

  absl::StatusOr<strategy::Strategy> DecideOne(const ObjectSet& objects, CommId id) const {
    return Planner().DecideOne(objects, ResolveView(view_, objects), id);
  }

  // Applies the strategies for `objects` to all communicators.
  void Settle(const ObjectSet& objects) {
    for (CommunicatorView& communicator : view_.communicators) {
      communicator.strategy = *DecideOne(objects, communicator.id);
    }
  }

  const std::string kBase =
      Together({TenantDocument("a", 1), TenantDocument("b", 2), TopologyDocument("t", "h[0-2]")});
  const std::string kReverse = PolicyDocument(
      "reverse",
      "  type: locality_ring\n  parameters: {order: [h2, h1]}\n  selector: {tenants: [a]}\n");
  ClusterView view_;
};

TEST_F(PlannerTest, ThePolicyOfTheTenantDecides) {
  const ObjectSet objects = After({}, kBase + "---\n" + kReverse);
  const auto first = DecideOne(objects, kFirst);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->channels(0).ring(), ElementsAre(2, 1, 0));
  EXPECT_EQ(first->origin(), "locality_ring by reverse");
  const auto second = DecideOne(objects, kSecond);
  EXPECT_THAT(second->channels(0).ring(), ElementsAre(0, 1, 2));
  EXPECT_EQ(second->origin(), "locality_ring");
}

TEST_F(PlannerTest, AnUnknownCommunicatorIsNotFound) {
  EXPECT_EQ(DecideOne({}, CommId(0xc)).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PlannerTest, ChangesOnlyCommunicatorsOfTheNewPolicy) {
  Settle(After({}, kBase));
  const ObjectSet after = After(After({}, kBase), kReverse);
  const Decisions decisions = Decide(after, view_);
  ASSERT_EQ(decisions.changed.size(), 1u);
  EXPECT_EQ(decisions.changed[0].id, kFirst);
  EXPECT_EQ(decisions.changed[0].strategy.origin(), "locality_ring by reverse");
  EXPECT_EQ(decisions.changed[0].change,
            "channel 0: h2 → h1 → h0 → h2 instead of h0 → h1 → h2 → h0");
  EXPECT_THAT(decisions.changed[0].strategy.channels(0).ring(), ElementsAre(2, 1, 0));
  Settle(after);
  EXPECT_TRUE(Decide(after, view_).changed.empty());
}

TEST_F(PlannerTest, PolicyWithTheCurrentResultChangesNothing) {
  Settle(After({}, kBase));
  const ObjectSet after =
      After(After({}, kBase),
            PolicyDocument("p", "  type: locality_ring\n  parameters: {order: [h0, h1]}\n"));
  EXPECT_TRUE(Decide(after, view_).changed.empty());
}

TEST_F(PlannerTest, AssignsPortsToADaemonsDefaultStrategy) {
  for (int h = 0; h < 3; ++h) view_.communicators[0].strategy.mutable_channels(0)->add_ring(h);
  view_.communicators.pop_back();
  const Decisions decisions = Decide({}, view_);
  ASSERT_EQ(decisions.changed.size(), 1u);
  EXPECT_EQ(decisions.changed[0].change, "channel 0: source ports changed");
}

TEST_F(PlannerTest, KeepsTheOldStrategyOnErrorAndReportsIt) {
  view_.communicators[0].strategy.add_channels();
  const ObjectSet before = After({}, kBase);
  Settle(before);
  const ObjectSet after = After(before, PolicyDocument("p",
                                                       "  type: locality_ring\n"
                                                       "  parameters: {source_ports: 2000-2000}\n"
                                                       "  selector: {tenants: [a]}\n"));
  const Decisions decisions = Decide(after, view_);
  EXPECT_TRUE(decisions.changed.empty());
  ASSERT_EQ(decisions.trouble.size(), 1u);
  EXPECT_THAT(decisions.trouble[0].message(), HasSubstr("all ports 2000-2000 are in use"));
}

TEST_F(PlannerTest, AlgorithmPolicyAppliesInAdditionToRings) {
  const ObjectSet before = After({}, kBase);
  Settle(before);
  const ObjectSet after = After(
      before,
      PolicyDocument("small",
                     "  type: algorithm\n  parameters: {algorithm: direct, calls: [all_reduce]}\n"
                     "  selector: {tenants: [a], sizes: {max_bytes: 1MiB}}\n"));
  const Decisions decisions = Decide(after, view_);
  ASSERT_EQ(decisions.changed.size(), 1u);
  EXPECT_EQ(decisions.changed[0].change, "algorithm rules or costs changed");
  const strategy::AlgorithmChoice& choice = decisions.changed[0].strategy.algorithms();
  ASSERT_EQ(choice.rules_size(), 1);
  EXPECT_EQ(choice.rules(0).algorithm(), strategy::DIRECT);
  EXPECT_EQ(choice.rules(0).max_bytes(), 1u << 20);
  Settle(after);
  EXPECT_TRUE(Decide(after, view_).changed.empty());
  ASSERT_EQ(Decide(before, view_).changed.size(), 1u);
  EXPECT_EQ(Decide(before, view_).changed[0].strategy.algorithms().rules_size(), 0);
}

// A Policy that reserves the links of spine1 for Tenant `favoured`.
std::string Reserving(const std::string& name, const std::string& type,
                      const std::string& favoured) {
  return PolicyDocument(name,
                        absl::StrCat("  type: ", type, "\n  parameters: {favoured: [", favoured,
                                     "], reserved_links: [leaf0-spine1, leaf1-spine1]}\n"));
}

// The paper's testbed: hosts h1 and h5 in one rack, h2 and h3 in the other, two spines. Ports up to
// 62999 lead over spine0.
class TestbedPlannerTest : public testing::Test {
 protected:
  TestbedPlannerTest() { Apply(ContentOf("examples/topologies/paper-testbed.yaml")); }

  void Apply(const std::string& text) { objects_ = After(objects_, text); }

  void Start(uint64_t id, uint32_t uid, const std::vector<std::string>& hosts,
             const std::vector<int>& gpus) {
    AddCommunicator(&view_, id, absl::StrCat("uid ", uid), hosts, gpus);
  }

  // Runs policies and applies the strategies to all communicators.
  const std::vector<CommunicatorView>& Run() {
    const ClusterView seen =
        ViewOf(TopologyOf(*objects_.Find({ObjectKind::kTopology, "paper-testbed"})).topology);
    view_.hosts = seen.hosts;
    // Daemons do not report their positions.
    for (HostView& host : view_.hosts) host.position.pod = host.position.rack = "";
    view_ = ResolveView(view_, objects_);
    const Decisions decisions = Planner().Decide(objects_, view_);
    EXPECT_THAT(decisions.trouble, IsEmpty());
    PutStrategies(decisions, &view_);
    return view_.communicators;
  }

  // By channel and index: the spine of the lane, −1: within a rack.
  static std::vector<int> SpinesOf(const CommunicatorView& communicator) {
    const std::set<std::string> left = {"h1", "h5"};
    std::vector<int> spines;
    for (const auto& channel : communicator.strategy.channels()) {
      for (int i = 0; i < channel.ring_size(); ++i) {
        const std::string& from = communicator.hosts[channel.ring(i)];
        const std::string& to = communicator.hosts[channel.ring((i + 1) % channel.ring_size())];
        const bool crosses = left.contains(from) != left.contains(to);
        spines.push_back(crosses ? channel.source_ports(i) >= 63000 : -1);
      }
    }
    return spines;
  }

  ObjectSet objects_;
  ClusterView view_;
};

TEST_F(TestbedPlannerTest, EveryTypeOfPolicyRuns) {
  Apply(TenantDocument("a", 9));
  for (const PolicyTraits& type : kPolicyTraits) {
    Apply(ShortestPolicy("p", type));
    view_.communicators.clear();
    Start(1, 1, {"h2", "h1", "h3", "h5"}, {0, 1});
    const strategy::Strategy& strategy = Run()[0].strategy;
    const bool decides = type.decides.Contains(PolicyDecision::kRings);
    EXPECT_EQ(strategy.origin(), decides ? absl::StrCat(type.name, " by p") : "locality_ring");
    EXPECT_EQ(strategy.algorithms().rules_size() > 0,
              type.decides.Contains(PolicyDecision::kAlgorithms));
    ASSERT_EQ(strategy.channels_size(), 2) << type.name;
    EXPECT_EQ(strategy.channels(1).source_ports_size(), 4) << type.name;
  }
}

TEST_F(TestbedPlannerTest, UsesTheTopologyWithoutAPolicy) {
  Start(1, 1, {"h2", "h1", "h3", "h5"}, {0, 1});
  const strategy::Strategy& strategy = Run()[0].strategy;
  EXPECT_EQ(strategy.origin(), "locality_ring");
  ASSERT_EQ(strategy.channels_size(), 2);
  EXPECT_THAT(strategy.channels(0).ring(), ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(strategy.channels(1).addresses(),
              ElementsAre("10.0.0.2", "10.0.0.4", "10.0.1.2", "10.0.1.4"));
  for (const uint32_t port : strategy.channels(1).source_ports()) EXPECT_LE(port, 65535u);
}

TEST_F(TestbedPlannerTest, FairFlowGivesEachChannelItsOwnSpine) {
  Apply(PolicyDocument("fair", "  type: fair_flow\n"));
  Start(1, 1, {"h2", "h1", "h3", "h5"}, {0, 1});
  const CommunicatorView& job = Run()[0];
  EXPECT_EQ(job.strategy.origin(), "fair_flow by fair");
  const std::vector<int> spines = SpinesOf(job);  // h1, h5, h2, h3: the second and fourth cross
  ASSERT_EQ(spines.size(), 8u);
  EXPECT_NE(spines[1], spines[5]);
  EXPECT_NE(spines[3], spines[7]);
}

// Setups 3 and 4 of the paper.
TEST_F(TestbedPlannerTest, FairFlowSharesTheSpinesAmongJobs) {
  Apply(PolicyDocument("fair", "  type: fair_flow\n"));
  Start(1, 1, {"h1", "h2"}, {0, 1});
  Start(2, 2, {"h3", "h5"}, {0});
  Start(3, 3, {"h3", "h5"}, {1});
  const auto& jobs = Run();
  const std::vector<int> a = SpinesOf(jobs[0]), b = SpinesOf(jobs[1]), c = SpinesOf(jobs[2]);
  ASSERT_EQ(a.size(), 4u);
  EXPECT_NE(a[0], a[2]);  // the channels of A
  EXPECT_NE(a[1], a[3]);
  EXPECT_NE(b[0], c[0]);  // B and C
  EXPECT_NE(b[1], c[1]);
}

TEST_F(TestbedPlannerTest, PriorityFlowKeepsOthersFromReservedLinks) {
  Apply(
      Together({TenantDocument("production", 1), TenantDocument("research", 2),
                Reserving("first", "priority_flow", "production"),
                PolicyDocument("fair", "  type: fair_flow\n  selector: {tenants: [research]}\n")}));
  Start(1, 1, {"h1", "h2"}, {0, 1});
  Start(2, 2, {"h3", "h5"}, {0});
  Start(3, 3, {"h3", "h5"}, {1});
  const auto& jobs = Run();
  EXPECT_THAT(SpinesOf(jobs[0]), Each(1));  // production, whose flows avoid the others'
  EXPECT_THAT(SpinesOf(jobs[1]), Each(0));  // under another policy that places flows
  EXPECT_THAT(SpinesOf(jobs[2]), Each(0));  // under the same one
  EXPECT_EQ(jobs[1].strategy.origin(), "fair_flow by fair");
  EXPECT_EQ(jobs[2].strategy.origin(), "priority_flow by first");
}

// The third setup of the paper: A has a spine, and on the other one C waits for B.
TEST_F(TestbedPlannerTest, TimeWindowsPlaceFlowsAndKeepOffReservedLinks) {
  Apply(Together({TenantDocument("a", 1), TenantDocument("b", 2), TenantDocument("c", 3),
                  Reserving("first", "priority_flow", "a"),
                  PolicyDocument("second",
                                 "  type: time_windows\n"
                                 "  parameters: {favoured: [b]}\n"
                                 "  selector: {tenants: [b, c]}\n")}));
  Start(1, 1, {"h1", "h2"}, {0, 1});
  Start(2, 2, {"h3", "h5"}, {0});
  Start(3, 3, {"h3", "h5"}, {1});
  const auto& jobs = Run();
  EXPECT_THAT(SpinesOf(jobs[0]), Each(1));
  EXPECT_THAT(SpinesOf(jobs[1]), Each(0));
  EXPECT_THAT(SpinesOf(jobs[2]), Each(0));
  EXPECT_EQ(jobs[2].strategy.origin(), "time_windows by second");
  EXPECT_THAT(DecideWaitRules(objects_, view_, Fabrics(view_)),
              ElementsAre(WaitRule{CommId(3), {CommId(2)}, {"h3", "h5"}}));
}

TEST_F(TestbedPlannerTest, TimeWindowsReserveLinksThemselves) {
  Apply(Together(
      {TenantDocument("a", 1), TenantDocument("b", 2), Reserving("windows", "time_windows", "a")}));
  Start(1, 1, {"h1", "h2"}, {0});
  Start(2, 2, {"h3", "h5"}, {0});
  const auto& jobs = Run();
  EXPECT_THAT(SpinesOf(jobs[0]), Each(1));
  EXPECT_THAT(SpinesOf(jobs[1]), Each(0));
  EXPECT_TRUE(DecideWaitRules(objects_, view_, Fabrics(view_)).empty()) << "they share no link";
}

TEST_F(TestbedPlannerTest, FavouredFlowsUseWhatOthersLeave) {
  Apply(Together(
      {TenantDocument("production", 1), Reserving("first", "priority_flow", "production")}));
  Start(1, 1, {"h1", "h2"}, {0, 1});
  const auto& jobs = Run();
  EXPECT_THAT(SpinesOf(jobs[0]), testing::UnorderedElementsAre(0, 1, 0, 1));
}

TEST_F(TestbedPlannerTest, KeepsRunningStrategies) {
  Apply(PolicyDocument("fair", "  type: fair_flow\n"));
  Start(1, 1, {"h2", "h1", "h3", "h5"}, {0, 1});
  Start(2, 2, {"h3", "h5"}, {0});
  Start(3, 3, {"h3", "h1"}, {1});
  const std::vector<CommunicatorView> before = Run();
  const auto& after = Run();
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].strategy.SerializeAsString(), before[i].strategy.SerializeAsString());
    strategy::Strategy same = before[i].strategy;
    same.set_epoch(same.epoch() + 1);
    EXPECT_EQ(Planner().DecideOne(objects_, view_, after[i].id)->SerializeAsString(),
              same.SerializeAsString());
  }
}

TEST_F(TestbedPlannerTest, OriginSaysWhyFlowsCannotBePlaced) {
  Apply(PolicyDocument("fair", "  type: fair_flow\n"));
  Start(1, 1, {"h1", "elsewhere"}, {0});
  Start(2, 2, {"h1", "h2"}, {0});
  const auto& jobs = Run();
  EXPECT_THAT(jobs[0].strategy.origin(), OneLineMentions("fair_flow by fair", "locality_ring",
                                                         "no Topology", "host elsewhere"));
  EXPECT_EQ(jobs[1].strategy.origin(), "fair_flow by fair");
}

TEST_F(TestbedPlannerTest, RankOrderTakesHostsByTheirLowestRank) {
  Apply(PolicyDocument("library", "  type: rank_order\n  parameters: {port_seed: 7}\n"));
  Start(1, 1, {"h1", "h5", "h2", "h3"}, {0, 1});
  view_.communicators[0].first_ranks = {2, 6, 0, 4};
  const strategy::Strategy& strategy = Run()[0].strategy;
  EXPECT_EQ(strategy.origin(), "rank_order by library");
  for (const auto& channel : strategy.channels())
    EXPECT_THAT(channel.ring(), ElementsAre(2, 0, 3, 1));
}

TEST_F(TestbedPlannerTest, DrawnPortsDependOnlyOnTheSeed) {
  const auto ports = [&](uint64_t id, uint64_t seed) {
    view_.communicators.clear();
    Apply(PolicyDocument("library", absl::StrCat("  type: locality_ring\n"
                                                 "  parameters: {port_seed: ",
                                                 seed, "}\n")));
    Start(id, 1, {"h1", "h5", "h2", "h3"}, {0, 1});
    std::vector<uint32_t> drawn;
    for (const auto& channel : Run()[0].strategy.channels())
      drawn.insert(drawn.end(), channel.source_ports().begin(), channel.source_ports().end());
    EXPECT_THAT(drawn, Each(AllOf(testing::Ge(61000u), testing::Le(65535u))));
    return drawn;
  };
  EXPECT_EQ(ports(1, 1), ports(99, 1));
  EXPECT_NE(ports(1, 1), ports(1, 2));
  EXPECT_EQ(Run()[0].strategy.channels(0).source_ports(0), ports(1, 2)[0]);
}

TEST_F(TestbedPlannerTest, ThePortsOfAllLanesAreDistinctUnderSeveralPolicies) {
  Apply(Together({TenantDocument("a", 1), TenantDocument("b", 2),
                  PolicyDocument("fair", "  type: fair_flow\n  selector: {tenants: [a]}\n"),
                  PolicyDocument("ranks", "  type: rank_order\n  selector: {tenants: [b]}\n")}));
  for (uint64_t id = 1; id <= 9; ++id)
    Start(id, static_cast<uint32_t>(1 + id % 3), {"h1", "h5", "h2", "h3"}, {0, 1});
  std::set<uint32_t> ports;
  size_t lanes = 0;
  for (const CommunicatorView& job : Run()) {
    for (const auto& channel : job.strategy.channels()) {
      ports.insert(channel.source_ports().begin(), channel.source_ports().end());
      lanes += channel.source_ports_size();
    }
  }
  EXPECT_EQ(lanes, 9u * 8);
  EXPECT_EQ(ports.size(), lanes);
}

}  // namespace planner_test
}  // namespace mccs
