#include "controller/planning/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "controller/planning/run_policies.h"
#include "controller/policy/locality_ring.h"
#include "controller/state/resolved_view.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace planner_test {

using testing::ElementsAre;
using testing::HasSubstr;

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

  // Applies the strategies for `objects` to all communicators.
  void Settle(const ObjectSet& objects) {
    for (CommunicatorView& communicator : view_.communicators) {
      communicator.strategy = *RunPolicyFor(communicator.id, objects, ResolveView(view_, objects));
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
  const auto first = RunPolicyFor(kFirst, objects, ResolveView(view_, objects));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->channels(0).ring(), ElementsAre(2, 1, 0));
  EXPECT_EQ(first->origin(), "locality_ring by reverse");
  const auto second = RunPolicyFor(kSecond, objects, ResolveView(view_, objects));
  EXPECT_THAT(second->channels(0).ring(), ElementsAre(0, 1, 2));
  EXPECT_EQ(second->origin(), "locality_ring");
}

TEST_F(PlannerTest, SourcePortsStayWithinThePolicysRange) {
  const ObjectSet objects =
      After({}, PolicyDocument("ports",
                               "  type: locality_ring\n"
                               "  parameters: {source_ports: {first: 50000, last: 50002}}\n"));
  const auto strategy = RunPolicyFor(kFirst, objects, ResolveView(view_, objects));
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  for (const uint32_t port : strategy->channels(0).source_ports()) {
    EXPECT_GE(port, 50000u);
    EXPECT_LE(port, 50002u);
  }
}

TEST_F(PlannerTest, AnUnknownCommunicatorIsNotFound) {
  EXPECT_EQ(RunPolicyFor(CommId(0xc), {}, ResolveView(view_, {})).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(PlannerTest, ChangesOnlyCommunicatorsOfTheNewPolicy) {
  Settle(After({}, kBase));
  const ObjectSet after = After(After({}, kBase), kReverse);
  const Decisions decisions = Decide(after, view_);
  ASSERT_EQ(decisions.changed.size(), 1u);
  EXPECT_EQ(decisions.changed[0].id, kFirst);
  EXPECT_EQ(decisions.changed[0].tenant, "uid 1");
  EXPECT_EQ(decisions.changed[0].policy, "reverse");
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
  EXPECT_EQ(decisions.changed[0].change, "channel 0: other source ports");
}

TEST_F(PlannerTest, KeepsTheOldStrategyOnErrorAndReportsIt) {
  view_.communicators[0].strategy.add_channels();
  const ObjectSet before = After({}, kBase);
  Settle(before);
  const ObjectSet after =
      After(before, PolicyDocument("p",
                                   "  type: locality_ring\n"
                                   "  parameters: {source_ports: {first: 2000, last: 2000}}\n"
                                   "  selector: {tenants: [a]}\n"));
  const Decisions decisions = Decide(after, view_);
  EXPECT_TRUE(decisions.changed.empty());
  ASSERT_EQ(decisions.trouble.size(), 1u);
  EXPECT_THAT(std::string(decisions.trouble[0].message()), HasSubstr("are taken"));
}

TEST_F(PlannerTest, AlgorithmPolicyAppliesInAdditionToRings) {
  const ObjectSet before = After({}, kBase);
  Settle(before);
  const ObjectSet after =
      After(before, PolicyDocument("small",
                                   "  type: algorithm\n  parameters: {algorithm: direct}\n"
                                   "  selector: {tenants: [a], sizes: {max_bytes: 1MiB}}\n"));
  const Decisions decisions = Decide(after, view_);
  ASSERT_EQ(decisions.changed.size(), 1u);
  EXPECT_EQ(decisions.changed[0].change, "other algorithm rules or costs");
  const strategy::AlgorithmChoice& choice = decisions.changed[0].strategy.algorithms();
  ASSERT_EQ(choice.rules_size(), 1);
  EXPECT_EQ(choice.rules(0).algorithm(), strategy::DIRECT);
  EXPECT_EQ(choice.rules(0).max_bytes(), 1u << 20);
  Settle(after);
  EXPECT_TRUE(Decide(after, view_).changed.empty());
  ASSERT_EQ(Decide(before, view_).changed.size(), 1u);
  EXPECT_EQ(Decide(before, view_).changed[0].strategy.algorithms().rules_size(), 0);
}

}  // namespace planner_test
}  // namespace mccs
