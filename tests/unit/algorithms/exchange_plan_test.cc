// Costs and errors of direct exchanges. plan_sweep_test.cc proves their correctness.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "algorithms/geometry.h"
#include "algorithms/plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/algorithms/plan_cases.h"
#include "tests/unit/algorithms/plan_check.h"

namespace mccs {
namespace exchange_plan_test {

using ::testing::HasSubstr;

std::vector<PlanKey> Keys(int root) {
  return {KeyOf(OpKind::kAllToAll), KeyOf(OpKind::kGather, Rank(root)),
          KeyOf(OpKind::kScatter, Rank(root))};
}

// Pieces sent from host to host, by pair of hosts, from the plans of the senders.
std::map<std::pair<int, int>, size_t> PiecesSent(const std::vector<Plan>& plans) {
  std::map<std::pair<int, int>, size_t> sent;
  for (int h = 0; h < static_cast<int>(plans.size()); ++h) {
    for (const Step& step : plans[h].programs[0].steps) {
      if (step.kind == StepKind::kSend) sent[{h, step.peer.value()}] += step.pieces.size();
    }
  }
  return sent;
}

TEST(ExchangePlan, EachBlockCrossesBetweenTwoHostsOnce) {
  const std::vector<int> ranks{2, 1, 3};
  const Layout layout = InterleavedLayout(ranks);
  const auto all_to_all =
      PiecesSent(BuildAll(KeyOf(OpKind::kAllToAll), layout, VariedOrders(layout.host_count(), 1)));
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      if (from == to) continue;
      EXPECT_EQ(all_to_all.at({from, to}), static_cast<size_t>(ranks[from] * ranks[to]));
    }
  }
  for (OpKind kind : {OpKind::kGather, OpKind::kScatter}) {
    const Rank root = layout.hosts[2][1];
    const auto sent =
        PiecesSent(BuildAll(KeyOf(kind, root), layout, VariedOrders(layout.host_count(), 1)));
    ASSERT_EQ(sent.size(), 2u);
    for (int other : {0, 1}) {
      const auto ends = kind == OpKind::kGather ? std::pair(other, 2) : std::pair(2, other);
      EXPECT_EQ(sent.at(ends), static_cast<size_t>(ranks[other]));
    }
  }
}

TEST(ExchangePlan, AStraightSliceHasOneBlock) {
  const auto plans = BuildAll(KeyOf(OpKind::kAllToAll), BlockLayout({4, 4, 4}), VariedOrders(3, 1));
  EXPECT_EQ(plans[0].max_pieces, 1);
  EXPECT_EQ(plans[0].parts, 16);
  const std::vector<Step>& steps = plans[0].programs[0].steps;
  ASSERT_EQ(steps.size(), 5u);
  for (size_t s = 1; s < steps.size(); ++s) {
    EXPECT_EQ(steps[s].pieces.size(), 16u);
    EXPECT_TRUE(steps[s].after.empty()) << "steps do not wait for each other";
  }
}

TEST(ExchangePlan, SlicesArePackedUnlessTheirBlocksAreSuccessive) {
  PlanKey key = KeyOf(OpKind::kGather, Rank(0));
  key.packed = true;
  const auto receives = [&](const Layout& layout) {
    const auto plans = BuildAll(key, layout, VariedOrders(2, 1));
    const std::vector<Step>& sender = plans[1].programs[0].steps;
    EXPECT_EQ(sender.back().pieces.front().space, Space::kStaged) << "from two inputs";
    const std::vector<Step>& root = plans[0].programs[0].steps;
    const auto receive = std::ranges::find(root, StepKind::kReceive, &Step::kind);
    return receive->pieces.front().space;
  };
  EXPECT_EQ(receives(BlockLayout({2, 2})), Space::kOutput);
  EXPECT_EQ(receives(InterleavedLayout({2, 2})), Space::kReceived);
}

TEST(ExchangePlan, NoTwoHostsHaveTheSameFirstTarget) {
  for (int hosts : {2, 3, 5, 8}) {
    const auto plans = BuildAll(KeyOf(OpKind::kAllToAll), BlockLayout(std::vector<int>(hosts, 2)),
                                VariedOrders(hosts, 4));
    for (size_t c = 0; c < plans[0].programs.size(); ++c) {
      for (int hop = 1; hop < hosts; ++hop) {
        std::set<HostIndex> targets;
        for (const Plan& plan : plans) {
          for (const Step& step : plan.programs[c].steps) {
            if (step.kind == StepKind::kSend && step.stage == hop) targets.insert(step.peer);
          }
        }
        EXPECT_EQ(targets.size(), static_cast<size_t>(hosts));
      }
    }
  }
}

TEST(ExchangePlan, OneHostCopiesAndHasNoLane) {
  for (const PlanKey& key : Keys(1)) {
    const Plan plan = BuildAll(key, BlockLayout({4}), VariedOrders(1, 2))[0];
    EXPECT_FALSE(plan.crosses_hosts);
    ASSERT_EQ(plan.programs[1].steps.size(), 1u);
    EXPECT_EQ(plan.programs[1].steps[0].combines.size(), key.kind == OpKind::kAllToAll ? 16u : 4u);
  }
}

TEST(ExchangePlan, APackedPlanUsesTheFirstChannel) {
  PlanKey key = KeyOf(OpKind::kAllToAll);
  for (bool packed : {false, true}) {
    key.packed = packed;
    const Plan plan = BuildAll(key, BlockLayout({2, 2}), VariedOrders(2, 2))[0];
    EXPECT_EQ(plan.programs[1].steps.empty(), packed) << "no lanes";
    EXPECT_EQ(plan.programs[1].channel, ChannelId(1));
  }
  // One part: nothing to pack.
  EXPECT_FALSE(BuildAll(key, BlockLayout({1, 1}), VariedOrders(2, 2))[0].programs[1].steps.empty());
}

TEST(ExchangePlan, StepsDoNotDependOnTheNumberOfRanks) {
  for (bool packed : {false, true}) {
    PlanKey key = KeyOf(OpKind::kAllToAll);
    key.packed = packed;
    const Layout layout = BlockLayout({kMaxLocalRanks, 2, kMaxLocalRanks});
    const auto plans = BuildAll(key, layout, VariedOrders(3, 1));
    EXPECT_EQ(plans[0].parts, kMaxLocalRanks * kMaxLocalRanks);
    EXPECT_EQ(plans[0].programs[0].steps.size(), packed ? 9u : 5u);
    const Geometry tiny(plans[0], DataType::kInt8, 1, 96 << 10);
    EXPECT_LE(tiny.Parts(0).size(), static_cast<size_t>(kMaxPieces));
  }
}

TEST(ExchangePlan, AsManyHostsAsThereMayBeHaveAPlan) {
  const Layout layout = BlockLayout(std::vector<int>(kMaxHosts, 8));
  const auto plan =
      BuildPlan(KeyOf(OpKind::kAllToAll), layout, VariedOrders(kMaxHosts, 1), HostIndex(0));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->programs[0].steps.size(), 1 + 2 * (size_t{kMaxHosts} - 1));
}

TEST(ExchangePlan, RejectsUnsupportedKeys) {
  const Layout layout = BlockLayout({2, 2});
  const auto rejection = [&](const PlanKey& key) {
    return std::string(BuildPlan(key, layout, VariedOrders(2, 1), HostIndex(0)).status().message());
  };
  EXPECT_THAT(rejection(KeyOf(OpKind::kGather, Rank(4))), HasSubstr("root 4"));
  PlanKey scaled = KeyOf(OpKind::kAllToAll);
  scaled.scaled = true;
  EXPECT_THAT(rejection(scaled), HasSubstr("takes no scale"));
  EXPECT_THAT(rejection({.kind = OpKind::kAllToAll, .algorithm = Algorithm::kRing}),
              HasSubstr("all_to_all: unsupported by algorithm 'ring' over 2 hosts"));
}

}  // namespace exchange_plan_test
}  // namespace mccs
