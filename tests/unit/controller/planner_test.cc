#include "controller/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/policy/locality_ring.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace {

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

  const std::string kBase =
      Together({TenantDocument("a", 1), TenantDocument("b", 2), TopologyDocument("t", "h[0-2]")});
  const std::string kReverse = PolicyDocument(
      "reverse",
      "  policy: locality_ring\n  parameters: {order: [h2, h1]}\n  for: {tenants: [a]}\n");
  ClusterView view_;
};

TEST_F(PlannerTest, ThePolicyOfTheTenantDecides) {
  const ObjectSet objects = After({}, kBase + "---\n" + kReverse);
  const auto first = ChooseStrategy(objects, view_, kFirst);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->channels(0).ring(), ElementsAre(2, 1, 0));
  EXPECT_EQ(first->origin(), "locality_ring by reverse");
  const auto second = ChooseStrategy(objects, view_, kSecond);
  EXPECT_THAT(second->channels(0).ring(), ElementsAre(0, 1, 2));
  EXPECT_EQ(second->origin(), "locality_ring");
}

TEST_F(PlannerTest, SourcePortsStayWithinThePolicysRange) {
  const ObjectSet objects =
      After({}, PolicyDocument("ports",
                               "  policy: locality_ring\n"
                               "  parameters: {source_ports: {first: 50000, last: 50002}}\n"));
  const auto strategy = ChooseStrategy(objects, view_, kFirst);
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  for (const uint32_t port : strategy->channels(0).source_ports()) {
    EXPECT_GE(port, 50000u);
    EXPECT_LE(port, 50002u);
  }
}

TEST_F(PlannerTest, OnlyThoseThatAnotherPolicyDecidesForArePlanned) {
  const ObjectSet before = After({}, kBase);
  const ObjectSet after = After(before, kReverse);
  const PlannedStrategies plan = PlanStrategies(before, after, view_);
  ASSERT_EQ(plan.changed.size(), 1u);
  EXPECT_EQ(plan.changed[0].id, kFirst);
  EXPECT_EQ(plan.changed[0].policy_before, "");
  EXPECT_EQ(plan.changed[0].policy_after, "reverse");
  EXPECT_EQ(plan.changed[0].change, "channel 0: h2 → h1 → h0 → h2 instead of h0 → h1 → h2 → h0");
  EXPECT_TRUE(PlanStrategies(after, after, view_).changed.empty());
}

TEST_F(PlannerTest, APolicyThatAsksForWhatIsThereChangesNoCommunicator) {
  const ObjectSet before = After({}, kBase);
  const ObjectSet after = After(
      before, PolicyDocument("p", "  policy: locality_ring\n  parameters: {order: [h0, h1]}\n"));
  EXPECT_TRUE(PlanStrategies(before, after, view_).changed.empty());
}

TEST_F(PlannerTest, TooFewPortsAreToldBeforehand) {
  const ObjectSet before = After({}, kBase);
  view_.communicators[0].strategy.add_channels();
  const ObjectSet after =
      After(before, PolicyDocument("p",
                                   "  policy: locality_ring\n"
                                   "  parameters: {source_ports: {first: 2000, last: 2000}}\n"
                                   "  for: {tenants: [a]}\n"));
  const PlannedStrategies plan = PlanStrategies(before, after, view_);
  ASSERT_EQ(plan.changed.size(), 1u);
  EXPECT_THAT(plan.changed[0].change, HasSubstr("no strategy, and so its daemons' own"));
}

TEST_F(PlannerTest, WhatIsNotActedOnCountsAsNoneAndIsSaid) {
  const ObjectSet before = After({}, kBase);
  const ObjectSet after =
      After(before, Together({PolicyDocument("flow", "  policy: fair_flow\n"),
                              PolicyDocument("sizes",
                                             "  policy: locality_ring\n"
                                             "  for: {tenants: [a], sizes: {from: 1MiB}}\n")}));
  EXPECT_TRUE(PlanStrategies(before, after, view_).changed.empty());
  const Object& flow = *after.Find({ObjectKind::kPolicy, "flow"});
  EXPECT_EQ(InForce(flow), "not yet");
  EXPECT_EQ(
      NotActedOn(flow),
      "Policy fair_flow is kept and not acted on yet; its communicators go by locality_ring.");
  EXPECT_EQ(NotActedOn(*after.Find({ObjectKind::kPolicy, "sizes"})),
            "A Policy for some sizes only is kept and not acted on yet.");
  EXPECT_EQ(InForce(*after.Find({ObjectKind::kTenant, "a"})), "in part");
}

}  // namespace
}  // namespace mccs
