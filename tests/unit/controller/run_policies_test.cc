#include "controller/planning/run_policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "controller/rates/rate_limits.h"
#include "controller/state/resolved_view.h"
#include "controller/view/flow.h"
#include "tests/unit/mentions.h"
#include "tests/unit/objects/documents.h"
#include "tests/unit/policy/clusters.h"

namespace mccs {
namespace run_policies_test {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;

std::string Contents(const std::string& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in.good()) << file;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// The paper's testbed: hosts h1 and h5 in one rack, h2 and h3 in the other, two spines. Ports up to
// 62999 lead over spine0.
class RunPoliciesTest : public testing::Test {
 protected:
  RunPoliciesTest() { Apply(Contents("examples/topologies/paper-testbed.yaml")); }

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
    const auto strategies = RunPolicies(objects_, view_);
    for (size_t i = 0; i < strategies.size(); ++i) {
      EXPECT_TRUE(strategies[i].ok()) << strategies[i].status();
      if (strategies[i].ok()) view_.communicators[i].strategy = *strategies[i];
    }
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

TEST_F(RunPoliciesTest, UsesTheTopologyWithoutAPolicy) {
  Start(1, 1, {"h2", "h1", "h3", "h5"}, {0, 1});
  const strategy::Strategy& strategy = Run()[0].strategy;
  EXPECT_EQ(strategy.origin(), "locality_ring");
  ASSERT_EQ(strategy.channels_size(), 2);
  EXPECT_THAT(strategy.channels(0).ring(), ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(strategy.channels(1).addresses(),
              ElementsAre("10.0.0.2", "10.0.0.4", "10.0.1.2", "10.0.1.4"));
  for (const uint32_t port : strategy.channels(1).source_ports()) EXPECT_LE(port, 65535u);
}

TEST_F(RunPoliciesTest, FairFlowGivesEachChannelItsOwnSpine) {
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
TEST_F(RunPoliciesTest, FairFlowSharesTheSpinesAmongJobs) {
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

TEST_F(RunPoliciesTest, PriorityFlowKeepsOthersFromReservedLinks) {
  Apply(
      Together({TenantDocument("production", 1), TenantDocument("research", 2),
                PolicyDocument("first",
                               "  type: priority_flow\n"
                               "  parameters:\n"
                               "    favoured: [production]\n"
                               "    reserved_links: [leaf0-spine1, leaf1-spine1]\n"),
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
TEST_F(RunPoliciesTest, TimeWindowsPlaceFlowsAndKeepOffReservedLinks) {
  Apply(Together({TenantDocument("a", 1), TenantDocument("b", 2), TenantDocument("c", 3),
                  PolicyDocument("first",
                                 "  type: priority_flow\n"
                                 "  parameters:\n"
                                 "    favoured: [a]\n"
                                 "    reserved_links: [leaf0-spine1, leaf1-spine1]\n"),
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

TEST_F(RunPoliciesTest, TimeWindowsReserveLinksThemselves) {
  Apply(Together({TenantDocument("a", 1), TenantDocument("b", 2),
                  PolicyDocument("windows",
                                 "  type: time_windows\n"
                                 "  parameters:\n"
                                 "    favoured: [a]\n"
                                 "    reserved_links: [leaf0-spine1, leaf1-spine1]\n")}));
  Start(1, 1, {"h1", "h2"}, {0});
  Start(2, 2, {"h3", "h5"}, {0});
  const auto& jobs = Run();
  EXPECT_THAT(SpinesOf(jobs[0]), Each(1));
  EXPECT_THAT(SpinesOf(jobs[1]), Each(0));
  EXPECT_TRUE(DecideWaitRules(objects_, view_, Fabrics(view_)).empty()) << "they share no link";
}

TEST_F(RunPoliciesTest, FavouredFlowsUseWhatOthersLeave) {
  Apply(Together({TenantDocument("production", 1),
                  PolicyDocument("first",
                                 "  type: priority_flow\n"
                                 "  parameters:\n"
                                 "    favoured: [production]\n"
                                 "    reserved_links: [leaf0-spine1, leaf1-spine1]\n")}));
  Start(1, 1, {"h1", "h2"}, {0, 1});
  const auto& jobs = Run();
  EXPECT_THAT(SpinesOf(jobs[0]), testing::UnorderedElementsAre(0, 1, 0, 1));
}

TEST_F(RunPoliciesTest, KeepsRunningStrategies) {
  Apply(PolicyDocument("fair", "  type: fair_flow\n"));
  Start(1, 1, {"h2", "h1", "h3", "h5"}, {0, 1});
  Start(2, 2, {"h3", "h5"}, {0});
  Start(3, 3, {"h3", "h1"}, {1});
  const std::vector<CommunicatorView> before = Run();
  const auto& after = Run();
  for (size_t i = 0; i < after.size(); ++i) {
    strategy::Strategy same = before[i].strategy;
    same.set_epoch(same.epoch() + 1);
    EXPECT_EQ(after[i].strategy.SerializeAsString(), same.SerializeAsString());
  }
}

TEST_F(RunPoliciesTest, OriginSaysWhyFlowsCannotBePlaced) {
  Apply(PolicyDocument("fair", "  type: fair_flow\n"));
  Start(1, 1, {"h1", "elsewhere"}, {0});
  Start(2, 2, {"h1", "h2"}, {0});
  const auto& jobs = Run();
  EXPECT_THAT(jobs[0].strategy.origin(), OneLineMentions("fair_flow by fair", "locality_ring",
                                                         "no Topology", "host elsewhere"));
  EXPECT_EQ(jobs[1].strategy.origin(), "fair_flow by fair");
}

TEST_F(RunPoliciesTest, RankOrderTakesHostsByTheirLowestRank) {
  Apply(PolicyDocument("library", "  type: rank_order\n  parameters: {port_seed: 7}\n"));
  Start(1, 1, {"h1", "h5", "h2", "h3"}, {0, 1});
  view_.communicators[0].first_ranks = {2, 6, 0, 4};
  const strategy::Strategy& strategy = Run()[0].strategy;
  EXPECT_EQ(strategy.origin(), "rank_order by library");
  for (const auto& channel : strategy.channels())
    EXPECT_THAT(channel.ring(), ElementsAre(2, 0, 3, 1));
}

TEST_F(RunPoliciesTest, DrawnPortsDependOnlyOnTheSeed) {
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

TEST_F(RunPoliciesTest, ThePortsOfAllLanesAreDistinctUnderSeveralPolicies) {
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

}  // namespace run_policies_test
}  // namespace mccs
