#include "algorithms/algorithm_choice.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "algorithms/geometry.h"
#include "tests/unit/algorithms/plan_cases.h"

namespace mccs {
namespace algorithm_choice_test {

constexpr OpKind kChoosable[] = {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kReduce};

// A network of fast links with high latency.
constexpr CostParameters kFar{.operation_us = 10,
                              .hop_us = 50,
                              .slice_us = 3,
                              .lane_bytes_per_us = 3000,
                              .host_bytes_per_us = 3000,
                              .local_bytes_per_us = 20'000};

// One communicator from the point of view of one of its hosts.
class Choice {
 public:
  explicit Choice(int hosts, ChoiceParameters parameters = {.costs = kFar, .rules = {}},
                  int max_peers = kMaxHosts)
      : layout_(BlockLayout(std::vector<int>(static_cast<size_t>(hosts), 2))),
        orders_(VariedOrders(hosts, 2)),
        chooser_(
            {.layout = layout_, .orders = orders_, .slot_bytes = 96 << 10, .max_peers = max_peers},
            std::move(parameters)) {}
  Algorithm Of(OpKind kind, uint64_t bytes) { return chooser_.Choose(kind, bytes); }
  bool Packs(OpKind kind, Algorithm algorithm, uint64_t bytes) const {
    return chooser_.Packs(kind, algorithm, bytes);
  }
  Algorithm OfAllReduce(uint64_t bytes) { return Of(OpKind::kAllReduce, bytes); }

 private:
  const Layout layout_;
  const ChannelOrders orders_;
  AlgorithmChooser chooser_;
};

TEST(AlgorithmChoice, UsesDirectForSmallAndRingForLargeAllReduces) {
  for (int hosts : {2, 3, 4, 8}) {
    EXPECT_EQ(Choice(hosts).OfAllReduce(8), Algorithm::kDirect) << hosts;
    EXPECT_EQ(Choice(hosts).OfAllReduce(4 << 10), Algorithm::kDirect) << hosts;
  }
  for (int hosts : {3, 4, 8}) {
    EXPECT_EQ(Choice(hosts).OfAllReduce(256 << 20), Algorithm::kRing) << hosts;
  }
}

auto NumbersOf(const PlanWeight& weight) {
  const ProgramWeight& program = weight.programs.front();
  return std::tuple(program.hops, program.slices, program.slice_pieces, program.lane_pieces,
                    program.out_pieces, program.in_pieces, program.operands);
}

// The choice weighs the plan of one host for these.
TEST(AlgorithmChoice, HostsOfEqualSizeHaveEqualWeightsOnSymmetricPlans) {
  for (const int hosts : {2, 3, 5, 8, 13}) {
    const Layout layout = BlockLayout(std::vector<int>(static_cast<size_t>(hosts), 3));
    const ChannelOrders orders = VariedOrders(hosts, 1);
    for (int k = 0; k < kOpKinds; ++k) {
      const auto kind = static_cast<OpKind>(k);
      if (HasRoot(kind)) continue;
      for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kPat, Algorithm::kDirect}) {
        if (!Supports(algorithm, kind, hosts)) continue;
        const PlanKey key{.kind = kind, .algorithm = algorithm};
        const auto first = NumbersOf(Weigh(*BuildPlan(key, layout, orders, HostIndex(0))));
        for (int h = 1; h < hosts; ++h) {
          EXPECT_EQ(NumbersOf(Weigh(*BuildPlan(key, layout, orders, HostIndex(h)))), first)
              << Name(kind) << " by " << Name(algorithm) << ", host " << h << " of " << hosts;
        }
      }
    }
  }
}

TEST(AlgorithmChoice, ManyHostsTakeTrees) {
  Choice choice(100);
  EXPECT_EQ(choice.OfAllReduce(8), Algorithm::kTree) << "sending to 99 hosts takes time too";
  EXPECT_EQ(choice.OfAllReduce(64 << 10), Algorithm::kTree);
  EXPECT_EQ(choice.OfAllReduce(uint64_t{8} << 30), Algorithm::kRing);
  EXPECT_EQ(choice.Of(OpKind::kBroadcast, 8), Algorithm::kTree);
  EXPECT_EQ(choice.Of(OpKind::kReduce, 8), Algorithm::kTree);
}

TEST(AlgorithmChoice, OneHostAndKindsWithOneAlgorithmHaveNoChoice) {
  Choice alone(1);
  for (OpKind kind : kChoosable) EXPECT_EQ(alone.Of(kind, 8), Algorithm::kRing);
  Choice choice(4);
  EXPECT_EQ(choice.Of(OpKind::kAllToAll, 8), Algorithm::kDirect);
  EXPECT_EQ(choice.Of(OpKind::kGather, 8), Algorithm::kDirect);
  EXPECT_EQ(choice.Of(OpKind::kScatter, 8), Algorithm::kDirect);
}

TEST(AlgorithmChoice, NamesEveryAlgorithm) {
  for (int i = 0; i < kAlgorithms; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    EXPECT_EQ(ParseAlgorithm(Name(algorithm)), algorithm);
    EXPECT_NE(std::string_view(kAlgorithmNames).find(Name(algorithm)), std::string_view::npos)
        << Name(algorithm);
  }
  EXPECT_EQ(ParseAlgorithm("unknown"), std::nullopt);
}

// Over few hosts a grid saves no slices; large blocks should not be sent twice.
TEST(AlgorithmChoice, UsesGridsForSmallBlocksOfManyHosts) {
  EXPECT_EQ(Choice(4).Of(OpKind::kAllToAll, 8), Algorithm::kDirect);
  EXPECT_EQ(Choice(64).Of(OpKind::kAllToAll, 8), Algorithm::kGrid);
  EXPECT_EQ(Choice(64).Of(OpKind::kAllToAll, 1 << 20), Algorithm::kDirect);
}

TEST(AlgorithmChoice, UsesGridsIfDirectLanesDoNotFit) {
  const ChoiceParameters costs{.costs = kFar, .rules = {}};
  for (uint64_t bytes : {uint64_t{8}, uint64_t{1} << 20, uint64_t{1} << 30}) {
    EXPECT_EQ(Choice(1024, costs, 227).Of(OpKind::kAllToAll, bytes), Algorithm::kGrid) << bytes;
    EXPECT_EQ(Choice(1024, costs, 20).Of(OpKind::kAllToAll, bytes), Algorithm::kDirect)
        << "neither fits";
  }
  const ChoiceParameters ruled{.costs = kFar, .rules = {{OpKind::kAllToAll, Algorithm::kDirect}}};
  // Slots for 63 peers and staging memory for six are the memory of 35 peers.
  EXPECT_EQ(Choice(64, ruled, 35).Of(OpKind::kAllToAll, 1 << 20), Algorithm::kDirect);
  EXPECT_EQ(Choice(64, ruled, 34).Of(OpKind::kAllToAll, 1 << 20), Algorithm::kGrid)
      << "the rule has no plan";
  // Packed blocks need staging memory for each peer too, on one of two channels.
  EXPECT_EQ(Choice(64, ruled, 49).Of(OpKind::kAllToAll, 8), Algorithm::kDirect);
  EXPECT_EQ(Choice(64, ruled, 48).Of(OpKind::kAllToAll, 8), Algorithm::kGrid);
}

// A grid is faster for so small blocks, but its plan would be too large.
TEST(AlgorithmChoice, UsesNoAlgorithmWhosePlanIsTooLarge) {
  const Layout layout = BlockLayout(std::vector<int>(600, 32));
  const ChannelOrders orders = VariedOrders(600, 2);
  const PlanKey grid{.kind = OpKind::kAllToAll, .algorithm = Algorithm::kGrid};
  ASSERT_FALSE(IsPlanOfLegalSize(grid, SizeOf(layout), 2));
  for (const int max_peers : {20, kMaxHosts}) {
    AlgorithmChooser chooser(
        {.layout = layout, .orders = orders, .slot_bytes = 96 << 10, .max_peers = max_peers},
        {.costs = kFar, .rules = {{OpKind::kAllToAll, Algorithm::kGrid}}});
    EXPECT_EQ(chooser.Choose(OpKind::kAllToAll, 8), Algorithm::kDirect) << max_peers;
  }
}

TEST(AlgorithmChoice, BuildsNothingIfEveryPlanIsTooLarge) {
  const Layout layout = BlockLayout(std::vector<int>(2048, kMaxLocalRanks));
  const ChannelOrders orders = VariedOrders(2048, 2);
  AlgorithmChooser chooser(
      {.layout = layout, .orders = orders, .slot_bytes = 96 << 10, .max_peers = kMaxHosts},
      {.costs = kFar, .rules = {}});
  uint64_t parts = 0;
  while (!chooser.IsPrepared(OpKind::kAllToAll, 8)) parts += chooser.PrepareNext(OpKind::kAllToAll);
  EXPECT_LE(parts, 2048u);
  EXPECT_EQ(chooser.Choose(OpKind::kAllToAll, 8), Algorithm::kDirect) << "the call gets the error";
}

// Checks, builds and weighs.
TEST(AlgorithmChoice, IsPreparedInShortParts) {
  const Layout layout = BlockLayout(std::vector<int>(256, 8));
  const ChannelOrders orders = VariedOrders(256, 2);
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter,
                            OpKind::kAllToAll, OpKind::kBroadcast}) {
    AlgorithmChooser chooser(
        {.layout = layout, .orders = orders, .slot_bytes = 96 << 10, .max_peers = kMaxHosts},
        {.costs = kFar, .rules = {}});
    int free = 0;
    while (!chooser.IsPrepared(kind, 8)) {
      const uint64_t parts = chooser.PrepareNext(kind);
      EXPECT_LE(parts, 3 * kPartsAtOnce) << Name(kind);
      free += parts == 0 ? 1 : 0;
    }
    EXPECT_LE(free, 3) << Name(kind) << ": at most the ends of plans and of the choice";
  }
}

TEST(AlgorithmChoice, PacksSmallBlocksOfSeveralRanks) {
  Choice choice(4);
  for (OpKind kind : {OpKind::kAllToAll, OpKind::kGather, OpKind::kScatter}) {
    EXPECT_TRUE(choice.Packs(kind, Algorithm::kDirect, kMaxPackedBytes));
    EXPECT_FALSE(choice.Packs(kind, Algorithm::kDirect, kMaxPackedBytes + 1));
  }
  for (OpKind kind : {OpKind::kAllGather, OpKind::kReduceScatter}) {
    EXPECT_TRUE(choice.Packs(kind, Algorithm::kRing, 8));
    EXPECT_FALSE(choice.Packs(kind, Algorithm::kPat, 8)) << "always packs";
  }
  EXPECT_FALSE(choice.Packs(OpKind::kAllReduce, Algorithm::kRing, 8)) << "has one part";
  EXPECT_FALSE(choice.Packs(OpKind::kAllReduce, Algorithm::kDirect, 8));
  EXPECT_FALSE(Choice(1).Packs(OpKind::kAllGather, Algorithm::kRing, 8));
}

TEST(AlgorithmChoice, UsesPatForSmallAllGathersAndReduceScatters) {
  for (OpKind kind : {OpKind::kAllGather, OpKind::kReduceScatter}) {
    for (int hosts : {4, 5, 16, 100, 1024}) {
      EXPECT_EQ(Choice(hosts).Of(kind, 8), Algorithm::kPat) << Name(kind) << " over " << hosts;
      EXPECT_EQ(Choice(hosts).Of(kind, 1 << 10), Algorithm::kPat)
          << Name(kind) << " over " << hosts;
    }
    EXPECT_EQ(Choice(2).Of(kind, 8), Algorithm::kRing) << "there are no trees over two hosts";
    EXPECT_EQ(Choice(16, {.costs = kFar, .rules = {}}, 7).Of(kind, 8), Algorithm::kRing)
        << "lanes to eight peers do not fit";
    EXPECT_EQ(Choice(16, {.costs = kFar, .rules = {}}, 8).Of(kind, 8), Algorithm::kPat);
    const ChoiceParameters ruled{.costs = kFar, .rules = {{kind, Algorithm::kRing, 0, 100}}};
    EXPECT_EQ(Choice(16, ruled).Of(kind, 8), Algorithm::kRing);
    EXPECT_EQ(Choice(16, ruled).Of(kind, 101), Algorithm::kPat);
  }
}

TEST(AlgorithmChoice, ARuleWinsWithinItsSizes) {
  ChoiceParameters parameters{.costs = kFar, .rules = {}};
  parameters.rules = {
      {OpKind::kAllReduce, Algorithm::kTree, 100, 200},
      {OpKind::kAllReduce, Algorithm::kRing, 150, 300},
      {OpKind::kBroadcast, Algorithm::kTree, 0, 10},
  };
  Choice choice(4, parameters);
  EXPECT_EQ(choice.OfAllReduce(99), Algorithm::kDirect) << "chosen by the model";
  EXPECT_EQ(choice.OfAllReduce(100), Algorithm::kTree);
  EXPECT_EQ(choice.OfAllReduce(200), Algorithm::kTree) << "the first matching rule";
  EXPECT_EQ(choice.OfAllReduce(201), Algorithm::kRing);
  EXPECT_EQ(choice.OfAllReduce(300), Algorithm::kRing);
  EXPECT_EQ(choice.OfAllReduce(301), Algorithm::kDirect);
}

TEST(AlgorithmChoice, SkipsARuleWithoutAPlan) {
  ChoiceParameters parameters{.costs = kFar, .rules = {}};
  parameters.rules = {{OpKind::kAllReduce, Algorithm::kTree},
                      {OpKind::kAllReduce, Algorithm::kDirect}};
  EXPECT_EQ(Choice(2, parameters).OfAllReduce(uint64_t{1} << 30), Algorithm::kDirect)
      << "there is no tree over two hosts";
  EXPECT_EQ(Choice(8, parameters, /*max_peers=*/7).OfAllReduce(8), Algorithm::kTree);
  EXPECT_EQ(Choice(12, parameters, /*max_peers=*/7).OfAllReduce(8), Algorithm::kRing)
      << "no memory for so many lanes";
}

TEST(AlgorithmChoice, TakesNoMoreLanesThanThereIsMemoryFor) {
  EXPECT_EQ(Choice(4, {.costs = kFar, .rules = {}}, 3).OfAllReduce(8), Algorithm::kDirect);
  EXPECT_NE(Choice(4, {.costs = kFar, .rules = {}}, 2).OfAllReduce(8), Algorithm::kDirect);
  EXPECT_EQ(Choice(4, {.costs = kFar, .rules = {}}, 2).OfAllReduce(8), Algorithm::kRing);
}

// Hosts and calls are queried in different orders; cached results must not matter.
TEST(AlgorithmChoice, DoesNotDependOnEarlierQueries) {
  for (int hosts : {2, 3, 5, 17, 40}) {
    Choice upwards(hosts), downwards(hosts);
    std::vector<Algorithm> up, down;
    for (int bit = 0; bit <= 50; ++bit) {
      for (OpKind kind : kChoosable) up.push_back(upwards.Of(kind, uint64_t{1} << bit));
    }
    for (int bit = 50; bit >= 0; --bit) {
      for (int k = 2; k >= 0; --k)
        down.insert(down.begin(), downwards.Of(kChoosable[k], uint64_t{1} << bit));
    }
    EXPECT_EQ(up, down) << hosts << " hosts";
  }
}

TEST(AlgorithmChoice, ItsSizesAreRoundedUp) {
  Choice choice(6);
  for (int bit = 1; bit < 40; ++bit) {
    const uint64_t size = uint64_t{1} << bit;
    EXPECT_EQ(choice.OfAllReduce(size - size / 4), choice.OfAllReduce(size)) << size;
  }
}

}  // namespace algorithm_choice_test
}  // namespace mccs
