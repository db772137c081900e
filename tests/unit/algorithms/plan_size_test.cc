// The size of plans: bounds before they are built, and of the parts in which they are built.
#include "algorithms/plan_size.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "algorithms/build_plan.h"
#include "algorithms/cost.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/algorithms/plan_cases.h"

namespace mccs {
namespace plan_size_test {

using ::testing::HasSubstr;

// All plans over the layout, packed or not, scaled or not.
std::vector<PlanKey> KeysFor(const Layout& layout) {
  std::vector<PlanKey> keys;
  for (int k = 0; k < kOpKinds; ++k) {
    const auto kind = static_cast<OpKind>(k);
    for (int a = 0; a < kAlgorithms; ++a) {
      const auto algorithm = static_cast<Algorithm>(a);
      if (!Supports(algorithm, kind, layout.host_count())) continue;
      for (const bool packed : {false, true}) {
        keys.push_back(
            {.kind = kind, .algorithm = algorithm, .scaled = Reduces(kind), .packed = packed});
      }
    }
  }
  return keys;
}

uint64_t PartsOfSteps(const Program& program) {
  uint64_t parts = 0;
  for (const Step& step : program.steps) {
    parts += 1 + step.pieces.size() + step.after.size();
    for (const Combine& combine : step.combines)
      parts += 1 + combine.sources.size() + combine.destinations.size();
  }
  return parts;
}

uint64_t AllocatedBytes(const Plan& plan) {
  uint64_t bytes = sizeof(Plan);
  const auto of = [](const PlaceList& places) {
    return places.capacity() > 1 ? places.capacity() * sizeof(Place) : 0;
  };
  for (const Program& program : plan.programs) {
    bytes += sizeof(Program) + program.steps.size() * sizeof(Step);
    for (const Step& step : program.steps) {
      bytes += step.pieces.capacity() * sizeof(Place) + step.after.capacity() * sizeof(uint16_t) +
               step.combines.capacity() * sizeof(Combine);
      for (const Combine& combine : step.combines)
        bytes += of(combine.sources) + of(combine.destinations);
    }
  }
  return bytes;
}

TEST(PlanSize, NoPlanExceedsItsBound) {
  constexpr int kChannels = 2;
  for (const Layout& layout :
       {BlockLayout({1}), BlockLayout({9}), BlockLayout({1, 1}), BlockLayout({3, 1, 7}),
        InterleavedLayout({4, 4, 4, 4, 4}), BlockLayout({8, 8, 8, 8, 8, 8, 8}),
        BlockLayout({1, 1, 16, 1, 1, 1, 1, 1, 1}), BlockLayout(std::vector<int>(50, 1)),
        BlockLayout(std::vector<int>(33, 4))}) {
    const int hosts = layout.host_count();
    for (const PlanKey& key : KeysFor(layout)) {
      const uint64_t most = MostParts(key, SizeOf(layout), kChannels);
      uint64_t largest = 0;
      for (const Plan& plan : BuildAll(key, layout, VariedOrders(hosts, kChannels))) {
        largest = std::max(largest, PartsOf(plan));
        for (const Program& program : plan.programs)
          EXPECT_EQ(program.parts, PartsOfSteps(program)) << Describe(key, layout);
      }
      EXPECT_LE(largest, most) << Describe(key, layout);
    }
  }
}

// A bound that is far too high would reject plans that are small enough.
TEST(PlanSize, BoundsOfLargePlansAreTight) {
  const Layout layout = BlockLayout(std::vector<int>(100, 8));
  constexpr int kChannels = 2;
  for (const PlanKey& key : KeysFor(layout)) {
    const uint64_t most = MostParts(key, SizeOf(layout), kChannels);
    if (most < 10'000) continue;
    const auto plan = BuildPlan(key, layout, VariedOrders(100, kChannels), HostIndex(0));
    EXPECT_GE(2 * PartsOf(*plan), most) << Describe(key, layout);
  }
}

TEST(PlanSize, MemoryIsAboutTheEstimate) {
  const Layout layout = BlockLayout(std::vector<int>(60, 8));
  for (const PlanKey& key : KeysFor(layout)) {
    const auto plan = BuildPlan(key, layout, VariedOrders(60, 2), HostIndex(7));
    const uint64_t allocated = AllocatedBytes(*plan);
    if (allocated < 100'000) continue;
    EXPECT_LE(allocated, MemoryBytes(*plan) * 5 / 4) << Describe(key, layout);
    EXPECT_GE(allocated, MemoryBytes(*plan) / 2) << Describe(key, layout);
  }
}

// The longest part of an engine's turn, for communicators as large as clusters are.
TEST(PlanSize, PartsOfLargeCommunicatorsAreShort) {
  for (const auto& [hosts, ranks] : {std::pair(1024, 8), {4096, 8}, {1024, 16}, {4096, 1}}) {
    const Layout layout = BlockLayout(std::vector<int>(static_cast<size_t>(hosts), ranks));
    for (const PlanKey& key : KeysFor(layout)) {
      const ChannelOrders orders = VariedOrders(hosts, 1);
      auto build = PlanBuild::Begin(key, layout, orders, HostIndex(1));
      ASSERT_TRUE(build.ok()) << build.status();
      uint64_t longest = build->last_parts();
      // The first parts are like the later ones.
      for (int part = 0; part < 20 && !build->done(); ++part) {
        build->BuildNext();
        longest = std::max(longest, build->last_parts());
      }
      EXPECT_LE(longest, 10 * kPartsAtOnce)
          << "about 1 ms; " << Name(key.kind) << " by " << Name(key.algorithm) << " over " << hosts
          << " hosts of " << ranks << " ranks";
    }
  }
}

// Shapes that a tenant's own daemons may announce.
TEST(PlanSize, APartOfAnyCommunicatorIsBounded) {
  const std::vector<Layout> layouts = {BlockLayout(std::vector<int>(200, kMaxLocalRanks)),
                                       BlockLayout(std::vector<int>(kMaxHosts, 1)), [] {
                                         std::vector<int> ranks(kMaxHosts, 1);
                                         ranks[0] = ranks[1] = kMaxLocalRanks;
                                         return BlockLayout(ranks);
                                       }()};
  for (const Layout& layout : layouts) {
    for (const PlanKey& key : KeysFor(layout)) {
      const ChannelOrders orders = VariedOrders(layout.host_count(), 1);
      auto build = PlanBuild::Begin(key, layout, orders, HostIndex(0));
      if (!build.ok()) {
        EXPECT_EQ(build.status().code(), absl::StatusCode::kResourceExhausted);
        continue;
      }
      uint64_t longest = build->last_parts();
      for (int part = 0; part < 20 && !build->done(); ++part) {
        build->BuildNext();
        longest = std::max(longest, build->last_parts());
      }
      // All pairs of the ranks of two hosts, packed.
      EXPECT_LE(longest, kPartsAtOnce + 4 * kMaxLocalRanks * (kMaxLocalRanks + 1))
          << Name(key.kind) << " by " << Name(key.algorithm) << " over " << layout.host_count();
    }
  }
}

// A hostile tenant's: 33 million pairs of ranks for each of its hosts.
TEST(PlanSize, RejectsADirectExchangeOfThousandsOfHostsWithManyRanks) {
  const Layout layout = BlockLayout(std::vector<int>(2048, kMaxLocalRanks));
  const ChannelOrders orders = VariedOrders(2048, 1);
  for (const bool packed : {false, true}) {
    const PlanKey key{.kind = OpKind::kAllToAll, .algorithm = Algorithm::kDirect, .packed = packed};
    const auto build = PlanBuild::Begin(key, layout, orders, HostIndex(0));
    EXPECT_EQ(build.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(build.status().message(),
                HasSubstr("all_to_all by direct with up to 128 ranks on each of 2048 hosts"));
  }
}

TEST(PlanSize, AcceptsThePlansOfLargeClusters) {
  constexpr size_t kDefaultChannels = 2;
  for (const auto& [hosts, ranks] : {std::pair(1024, 8), {4096, 8}, {1024, 16}}) {
    const Layout layout = BlockLayout(std::vector<int>(static_cast<size_t>(hosts), ranks));
    for (const PlanKey& key : KeysFor(layout)) {
      EXPECT_EQ(CheckPlanSize(key, SizeOf(layout), kDefaultChannels), absl::OkStatus());
    }
  }
}

// An estimate weighs the plan of a call.
TEST(PlanSize, APlanIsWeighedInShortParts) {
  const Layout layout = BlockLayout(std::vector<int>(256, 8));
  const PlanKey key{.kind = OpKind::kAllToAll, .algorithm = Algorithm::kDirect};
  const auto plan = BuildPlan(key, layout, VariedOrders(256, 4), HostIndex(0));
  PlanWeighing weighing(std::make_shared<const Plan>(*plan));
  uint64_t all = 0;
  while (!weighing.done()) {
    const uint64_t parts = weighing.WeighNext();
    EXPECT_LE(parts, 2 * kPartsAtOnce);
    all += parts;
  }
  EXPECT_GE(all, plan->programs[0].steps.size());
  EXPECT_EQ(weighing.Take().programs.size(), 4u);
}

}  // namespace plan_size_test
}  // namespace mccs
