// Home ranks: where slices land that are sent on or copied. Any choice of homes, by each host for
// itself, gives correct plans of the same cost.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "algorithms/cost.h"
#include "tests/unit/algorithms/plan_cases.h"
#include "tests/unit/algorithms/plan_check.h"

namespace mccs {
namespace home_plan_test {

// The plans in which slices land in outputs and are sent on or copied.
std::vector<PlanKey> KeysWithHome(const Layout& layout, Rank root) {
  std::vector<PlanKey> keys;
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kBroadcast}) {
    for (int i = 0; i < kAlgorithms; ++i) {
      const auto algorithm = static_cast<Algorithm>(i);
      if (!Supports(algorithm, kind, layout.host_count())) continue;
      keys.push_back(
          {.kind = kind, .algorithm = algorithm, .root = HasRoot(kind) ? root : Rank(0)});
      if (Reduces(kind)) {
        keys.push_back({.kind = kind, .algorithm = algorithm, .root = Rank(0), .scaled = true});
      }
    }
  }
  return keys;
}

std::vector<int> RandomRanksPerHost(int hosts, int most, std::mt19937_64& random) {
  std::vector<int> ranks;
  for (int h = 0; h < hosts; ++h) {
    ranks.push_back(1 + static_cast<int>(random() % static_cast<uint64_t>(most)));
  }
  return ranks;
}

// Each host has a random home on each channel.
ChannelOrders WithRandomHomes(ChannelOrders orders, const Layout& layout, std::mt19937_64& random) {
  for (size_t c = 0; c < orders.rings.size(); ++c) {
    std::vector<LocalIndex>& homes = orders.homes.emplace_back();
    for (const std::vector<Rank>& ranks : layout.hosts) {
      homes.push_back(LocalIndex(static_cast<int32_t>(random() % ranks.size())));
    }
  }
  return orders;
}

CheckOptions OptionsOf(const Plan& plan, uint64_t block) {
  return {.count = plan.count_spans_blocks ? block * static_cast<uint64_t>(plan.blocks) : block,
          .slots = 2,
          .slot_bytes = 64 * static_cast<uint32_t>(plan.max_pieces),
          .skew = 1};
}

// The local ranks in whose outputs slices of a program land, or from whose outputs they are sent.
std::set<int> RanksOfSlices(const Program& program) {
  std::set<int> ranks;
  for (const Step& step : program.steps) {
    if (step.kind == StepKind::kCombine) continue;
    for (const Place& place : step.pieces) {
      if (place.space == Space::kOutput) ranks.insert(place.index);
    }
  }
  return ranks;
}

TEST(HomePlan, AnyHomesAreProved) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    const int hosts = 2 + static_cast<int>(random() % 7);
    const Layout layout = InterleavedLayout(RandomRanksPerHost(hosts, 4, random));
    const ChannelOrders orders = WithRandomHomes(VariedOrders(hosts, 2), layout, random);
    const Rank root(static_cast<int32_t>(random() % static_cast<uint64_t>(layout.rank_count())));
    for (const PlanKey& key : KeysWithHome(layout, root)) {
      const std::vector<Plan> plans = BuildAll(key, layout, orders);
      CheckOptions options = OptionsOf(plans[0], 35);
      for (const bool in_place : {false, true}) {
        options.in_place = in_place;
        const absl::Status status = CheckPlans(plans, layout, options);
        ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << Describe(key, layout) << "\n"
                                 << status;
      }
    }
  }
}

// The checker's limit: a ring's plans have steps in the square of the hosts.
int MostHosts(const PlanKey& key) {
  const bool quadratic = key.algorithm == Algorithm::kRing && !HasRoot(key.kind);
  return quadratic || key.algorithm == Algorithm::kDirect ? 20 : 64;
}

TEST(HomePlan, ManyHostsWithSeveralRanksAreProved) {
  std::set<Algorithm> proved;
  for (const int hosts : {20, 33, 64}) {
    std::mt19937_64 random(static_cast<uint64_t>(hosts));
    const Layout layout = BlockLayout(RandomRanksPerHost(hosts, 4, random));
    const ChannelOrders orders = WithRandomHomes(VariedOrders(hosts, 1), layout, random);
    for (const PlanKey& key : KeysWithHome(layout, Rank(3))) {
      if (hosts > MostHosts(key)) continue;
      const std::vector<Plan> plans = BuildAll(key, layout, orders);
      const absl::Status status = CheckPlans(plans, layout, OptionsOf(plans[0], 16));
      ASSERT_TRUE(status.ok()) << "seed " << hosts << ": " << Describe(key, layout) << "\n"
                               << status;
      proved.insert(key.algorithm);
    }
  }
  EXPECT_EQ(proved, (std::set<Algorithm>{Algorithm::kRing, Algorithm::kTree, Algorithm::kDirect,
                                         Algorithm::kPat}));
}

TEST(HomePlan, SlicesLandInAndLeaveFromTheHome) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    const Layout layout = BlockLayout(RandomRanksPerHost(5, 4, random));
    const ChannelOrders orders = WithRandomHomes(VariedOrders(5, 3), layout, random);
    for (const PlanKey& key : KeysWithHome(layout, Rank(0))) {
      const std::vector<Plan> plans = BuildAll(key, layout, orders);
      for (size_t h = 0; h < plans.size(); ++h) {
        for (size_t c = 0; c < plans[h].programs.size(); ++c) {
          for (const int rank : RanksOfSlices(plans[h].programs[c])) {
            EXPECT_EQ(rank, orders.homes[c][h].value())
                << "seed " << seed << ": " << Describe(key, layout);
          }
        }
      }
    }
  }
}

TEST(HomePlan, ChannelsTakeTurnsOfTheRanksByDefault) {
  const Layout layout = BlockLayout({3, 2});
  const std::vector<Plan> plans = BuildAll(KeyOf(OpKind::kAllReduce), layout, VariedOrders(2, 4));
  for (size_t h = 0; h < plans.size(); ++h) {
    for (int c = 0; c < 4; ++c) {
      const int home = c % static_cast<int>(layout.hosts[h].size());
      EXPECT_EQ(RanksOfSlices(plans[h].programs[static_cast<size_t>(c)]), std::set<int>{home});
    }
  }
}

// The bytes that a plan reads, writes and sends, its slices and its hops do not depend on homes.
TEST(HomePlan, EveryHomeHasTheSameCost) {
  const Layout layout = BlockLayout({4, 2, 3, 4, 1});
  ChannelOrders orders = VariedOrders(5, 1);
  for (const PlanKey& key : KeysWithHome(layout, Rank(5))) {
    for (const uint64_t bytes : {uint64_t{8}, uint64_t{1} << 16, uint64_t{64} << 20}) {
      const PlannedCall call{.type = DataType::kInt8, .count = bytes, .slot_bytes = 96u << 10};
      std::set<double> costs;
      for (int home = 0; home < 4; ++home) {
        orders.homes = {{LocalIndex(home), LocalIndex(home % 2), LocalIndex(home % 3),
                         LocalIndex(home), LocalIndex(0)}};
        costs.insert(EstimateUs(BuildAll(key, layout, orders)[0], call, CostParameters{}));
      }
      EXPECT_EQ(costs.size(), 1u) << Describe(key, layout);
    }
  }
}

TEST(HomePlan, RejectsHomesThatAreNoRanksOfTheirHosts) {
  const Layout layout = BlockLayout({2, 1});
  ChannelOrders orders = VariedOrders(2, 2);
  const std::vector<LocalIndex> good = {LocalIndex(1), LocalIndex(0)};
  for (const std::vector<LocalIndex>& bad : {std::vector<LocalIndex>{LocalIndex(1)},
                                             {LocalIndex(1), LocalIndex(1)},
                                             {LocalIndex(-1), LocalIndex(0)}}) {
    orders.homes = {good, bad};
    EXPECT_TRUE(absl::IsInvalidArgument(
        BuildPlan(KeyOf(OpKind::kAllReduce), layout, orders, HostIndex(0)).status()));
  }
  orders.homes = {good};
  EXPECT_TRUE(absl::IsInvalidArgument(
      BuildPlan(KeyOf(OpKind::kAllReduce), layout, orders, HostIndex(0)).status()));
  orders.homes = {good, good};
  EXPECT_TRUE(BuildPlan(KeyOf(OpKind::kAllReduce), layout, orders, HostIndex(0)).ok());
}

}  // namespace home_plan_test
}  // namespace mccs
