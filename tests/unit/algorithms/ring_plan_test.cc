// Costs and errors of ring plans. plan_sweep_test.cc proves their correctness.
#include <algorithm>
#include <vector>

#include "algorithms/plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/algorithms/plan_cases.h"

namespace mccs {
namespace ring_plan_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

int CountSteps(const Program& program, StepKind kind) {
  return static_cast<int>(
      std::ranges::count_if(program.steps, [&](const Step& step) { return step.kind == kind; }));
}

// How often combines, or sends, read a block of a buffer of local rank `local`.
int CountReads(const Program& program, Space space, uint16_t local, bool by_sends) {
  int reads = 0;
  for (const Step& step : program.steps) {
    for (const Combine& combine : step.combines) {
      for (const Place& p : combine.sources)
        reads += !by_sends && p.space == space && p.index == local;
    }
    if (step.kind != StepKind::kSend) continue;
    for (const Place& p : step.pieces) reads += by_sends && p.space == space && p.index == local;
  }
  return reads;
}

int CountWrites(const Program& program, uint16_t local) {
  int writes = 0;
  for (const Step& step : program.steps) {
    for (const Combine& combine : step.combines) {
      for (const Place& p : combine.destinations)
        writes += p.space == Space::kOutput && p.index == local;
    }
    if (step.kind != StepKind::kReceive) continue;
    for (const Place& p : step.pieces) writes += p.space == Space::kOutput && p.index == local;
  }
  return writes;
}

TEST(RingPlan, AnAllReduceTakesTwiceHostsMinusOneHops) {
  for (int hosts = 2; hosts <= 6; ++hosts) {
    for (const Plan& plan :
         BuildAll({.kind = OpKind::kAllReduce}, BlockLayout(std::vector<int>(hosts, 2)),
                  VariedOrders(hosts, 1))) {
      EXPECT_EQ(plan.blocks, hosts);
      EXPECT_EQ(CountSteps(plan.programs[0], StepKind::kSend), 2 * (hosts - 1));
      EXPECT_EQ(CountSteps(plan.programs[0], StepKind::kReceive), 2 * (hosts - 1));
    }
  }
}

TEST(RingPlan, AllGatherAndReduceScatterTakeHostsMinusOneHops) {
  for (OpKind kind : {OpKind::kAllGather, OpKind::kReduceScatter}) {
    const Plan plan = BuildAll({.kind = kind}, BlockLayout({1, 3, 2, 1}), VariedOrders(4, 1))[1];
    EXPECT_EQ(CountSteps(plan.programs[0], StepKind::kSend), 3);
    EXPECT_EQ(plan.blocks, 7);
    EXPECT_EQ(plan.max_pieces, 1);
    EXPECT_EQ(plan.parts, 3);
  }
}

TEST(RingPlan, ABroadcastEndsBeforeTheRoot) {
  const auto plans = BuildAll({.kind = OpKind::kBroadcast, .root = Rank(2)},
                              BlockLayout({1, 1, 1, 1}), VariedOrders(4, 1));
  EXPECT_EQ(CountSteps(plans[2].programs[0], StepKind::kReceive), 0);
  EXPECT_EQ(CountSteps(plans[2].programs[0], StepKind::kSend), 1);
  EXPECT_EQ(CountSteps(plans[1].programs[0], StepKind::kSend), 0);  // The host before the root's.
}

TEST(RingPlan, AReduceStartsAfterTheRootAndEndsThere) {
  const auto plans = BuildAll({.kind = OpKind::kReduce, .root = Rank(2)}, BlockLayout({1, 1, 1, 1}),
                              VariedOrders(4, 1));
  EXPECT_EQ(CountSteps(plans[3].programs[0], StepKind::kReceive), 0);
  EXPECT_EQ(CountSteps(plans[3].programs[0], StepKind::kSend), 1);
  EXPECT_EQ(CountSteps(plans[2].programs[0], StepKind::kSend), 0);
  EXPECT_EQ(CountWrites(plans[2].programs[0], 0), 1);
  for (int h : {0, 1, 3}) EXPECT_EQ(CountWrites(plans[h].programs[0], 0), 0) << "host " << h;
}

TEST(RingPlan, EachInputIsReadOnceAndEachOutputWrittenOnce) {
  for (const std::vector<int>& ranks : {std::vector<int>{3}, {2, 3}, {1, 2, 4}}) {
    const Layout layout = BlockLayout(ranks);
    const auto plans =
        BuildAll({.kind = OpKind::kAllReduce}, layout, VariedOrders(layout.host_count(), 1));
    for (int h = 0; h < layout.host_count(); ++h) {
      const Program& program = plans[h].programs[0];
      for (uint16_t local = 0; local < layout.hosts[h].size(); ++local) {
        EXPECT_EQ(CountReads(program, Space::kInput, local, false) +
                      CountReads(program, Space::kInput, local, true),
                  plans[h].blocks);
        EXPECT_EQ(CountWrites(program, local), plans[h].blocks);
      }
    }
  }
}

TEST(RingPlan, OnlyASingleUnscaledInputIsSentDirectly) {
  for (bool scaled : {false, true}) {
    for (int local_ranks : {1, 2}) {
      const Plan plan = BuildAll({.kind = OpKind::kAllReduce, .scaled = scaled},
                                 BlockLayout({local_ranks, 1}), VariedOrders(2, 1))[0];
      EXPECT_EQ(CountReads(plan.programs[0], Space::kInput, 0, true),
                local_ranks == 1 && !scaled ? 1 : 0);
    }
  }
}

TEST(RingPlan, OneHostIsOneCombinePerOutputAndNoLane) {
  const Plan all_reduce =
      BuildAll({.kind = OpKind::kAllReduce}, BlockLayout({4}), VariedOrders(1, 2))[0];
  EXPECT_FALSE(all_reduce.crosses_hosts);
  EXPECT_EQ(all_reduce.blocks, 1);
  ASSERT_EQ(all_reduce.programs.size(), 2u);
  ASSERT_EQ(all_reduce.programs[1].steps.size(), 1u);
  EXPECT_EQ(all_reduce.programs[1].steps[0].combines.size(), 1u);
  EXPECT_EQ(all_reduce.programs[1].steps[0].combines[0].sources.size(), 4u);
  EXPECT_EQ(all_reduce.programs[1].steps[0].combines[0].destinations.size(), 4u);
}

TEST(RingPlan, TheLongestRingHasAPlan) {
  const ChannelOrders orders = VariedOrders(kMaxHosts, 1);
  const Layout layout = BlockLayout(std::vector<int>(kMaxHosts, 2));
  const auto plan =
      BuildPlan({.kind = OpKind::kAllReduce, .scaled = true}, layout, orders, HostIndex(0));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(CountSteps(plan->programs[0], StepKind::kSend), 2 * (kMaxHosts - 1));
}

TEST(RingPlan, FollowsTheOrderOfItsChannel) {
  const ChannelOrders orders{
      {{HostIndex(0), HostIndex(2), HostIndex(1)}, {HostIndex(1), HostIndex(2), HostIndex(0)}}};
  const auto plans = BuildAll({.kind = OpKind::kAllGather}, BlockLayout({1, 1, 1}), orders);
  const auto peers = [&](size_t channel, StepKind kind) {
    std::vector<HostIndex> peers;
    for (const Step& step : plans[0].programs[channel].steps) {
      if (step.kind == kind) peers.push_back(step.peer);
    }
    return peers;
  };
  EXPECT_THAT(peers(0, StepKind::kSend), ElementsAre(HostIndex(2), HostIndex(2)));
  EXPECT_THAT(peers(0, StepKind::kReceive), ElementsAre(HostIndex(1), HostIndex(1)));
  EXPECT_THAT(peers(1, StepKind::kSend), ElementsAre(HostIndex(1), HostIndex(1)));
  EXPECT_THAT(peers(1, StepKind::kReceive), ElementsAre(HostIndex(2), HostIndex(2)));
}

// The error message.
std::string Rejection(const PlanKey& key, const Layout& layout, const ChannelOrders& orders,
                      int self = 0) {
  const auto plan = BuildPlan(key, layout, orders, HostIndex(self));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(RingPlan, RejectsUnsupportedKeys) {
  const Layout layout = BlockLayout({2, 2});
  const ChannelOrders orders = VariedOrders(2, 2);
  const PlanKey good{.kind = OpKind::kAllReduce};
  for (OpKind kind : {OpKind::kNone, OpKind::kSend, OpKind::kRecv}) {
    EXPECT_THAT(Rejection({.kind = kind}, layout, orders), HasSubstr("no algorithm supports it"));
  }
  EXPECT_THAT(Rejection({.kind = OpKind::kBroadcast, .root = Rank(4)}, layout, orders),
              HasSubstr("root 4"));
  EXPECT_THAT(Rejection({.kind = OpKind::kBroadcast, .root = Rank(-1)}, layout, orders),
              HasSubstr("root -1"));
  EXPECT_THAT(Rejection({.kind = OpKind::kAllGather, .scaled = true}, layout, orders),
              HasSubstr("takes no scale"));
  EXPECT_THAT(Rejection(good, layout, orders, 2), HasSubstr("host 2"));
  EXPECT_THAT(Rejection(good, layout, {}), HasSubstr("at least one ring"));
  EXPECT_THAT(Rejection(good, layout, VariedOrders(3, 1)), HasSubstr("channel 0"));
  EXPECT_THAT(Rejection(good, layout, {{orders.rings[0], {HostIndex(1), HostIndex(1)}}}),
              HasSubstr("channel 1"));
}

TEST(RingPlan, RejectsInvalidLayouts) {
  const PlanKey good{.kind = OpKind::kAllReduce};
  EXPECT_THAT(Rejection(good, {}, VariedOrders(1, 1)), HasSubstr("layout with 0 hosts"));
  EXPECT_THAT(Rejection(good, BlockLayout(std::vector<int>(kMaxHosts + 1, 1)), VariedOrders(1, 1)),
              HasSubstr("layout with 4097 hosts"));
  EXPECT_THAT(Rejection(good, BlockLayout({1, 0}), VariedOrders(2, 1)),
              HasSubstr("host 1 has 0 ranks"));
  EXPECT_THAT(Rejection(good, BlockLayout({kMaxLocalRanks + 1}), VariedOrders(1, 1)),
              HasSubstr("129 ranks"));
  EXPECT_THAT(Rejection(good, Layout{{{Rank(0)}, {Rank(0)}}}, VariedOrders(2, 1)),
              HasSubstr("rank 0 of host 1"));
  EXPECT_THAT(Rejection(good, Layout{{{Rank(1), Rank(0)}}}, VariedOrders(1, 1)),
              HasSubstr("out of order"));
  EXPECT_THAT(Rejection(good, Layout{{{Rank(0), Rank(2)}}}, VariedOrders(1, 1)),
              HasSubstr("rank 2 of host 0"));
}

TEST(Layout, KnowsItsRanks) {
  const Layout layout = InterleavedLayout({1, 3, 2});
  EXPECT_EQ(layout.rank_count(), 6);
  EXPECT_EQ(layout.max_local_ranks(), 3);
}

}  // namespace ring_plan_test
}  // namespace mccs
