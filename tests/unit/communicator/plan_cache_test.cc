#include "service/communicator/strategy/plan_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/plan_size.h"
#include "service/config.h"

namespace mccs {
namespace plan_cache_test {

// Works until it is built.
absl::StatusOr<std::shared_ptr<const Plan>> Get(PlanCache& cache, const PlanKey& key) {
  for (;;) {
    auto plan = cache.Find(key);
    if (!plan.ok() || *plan != nullptr) return plan;
    cache.Work(1);
  }
}

Algorithm Choose(PlanCache& cache, OpKind kind, uint64_t bytes) {
  for (;;) {
    const std::optional<Algorithm> chosen = cache.AlgorithmFor(kind, bytes);
    if (chosen.has_value()) return *chosen;
    cache.Work(1);
  }
}

class PlanCacheTest : public testing::Test {
 protected:
  PlanCacheTest() {
    layout_.hosts = {{Rank(0), Rank(2)}, {Rank(1)}};
    strategy_.lanes = {.slots = 4, .slot_bytes = 64u << 10};
    strategy_.channels.assign(2, {.ring = {HostIndex(0), HostIndex(1)}, .source_ports = {}});
  }
  Layout layout_;
  Strategy strategy_;
};

TEST_F(PlanCacheTest, CachesEachPlan) {
  PlanCache cache(layout_, strategy_, HostIndex(0));
  const PlanKey reduce{.kind = OpKind::kAllReduce, .root = Rank(0), .scaled = false};
  const PlanKey gather{.kind = OpKind::kAllGather, .root = Rank(0), .scaled = false};
  const auto first = *Get(cache, reduce);
  EXPECT_EQ(first->programs.size(), 2u);
  const auto second = *Get(cache, gather);
  EXPECT_NE(first, second);
  EXPECT_EQ(*Get(cache, reduce), first);
  EXPECT_EQ(*Get(cache, gather), second);
}

TEST_F(PlanCacheTest, HomesAreTheRanksThatRunTheProgramsOfTheirGpus) {
  const std::vector<LocalIndex> runners = {LocalIndex(1), LocalIndex(1)};  // they share a GPU
  PlanCache cache(layout_, strategy_, HostIndex(0), runners);
  const auto plan = *Get(cache, {.kind = OpKind::kAllReduce});
  ASSERT_EQ(plan->programs.size(), 2u);
  for (const Program& program : plan->programs) EXPECT_EQ(program.home, LocalIndex(1));
  const ChannelOrders own = OwnOrders(OrdersOf(strategy_), layout_, HostIndex(0), runners);
  EXPECT_EQ(own.homes[1][1], LocalIndex(0)) << "of the other host";
}

TEST_F(PlanCacheTest, AHostAloneHasAChannelForEachGpu) {
  layout_.hosts = {{Rank(0), Rank(1), Rank(2), Rank(3)}};
  strategy_.channels.assign(1, {.ring = {HostIndex(0)}, .source_ports = {}});
  const std::vector<LocalIndex> runners = {LocalIndex(0), LocalIndex(3), LocalIndex(0),
                                           LocalIndex(3)};
  PlanCache cache(layout_, strategy_, HostIndex(0), runners);
  EXPECT_EQ(cache.channels(), 2);
  const auto plan = *Get(cache, {.kind = OpKind::kAllReduce});
  ASSERT_EQ(plan->programs.size(), 2u);
  EXPECT_EQ(plan->programs[0].home, LocalIndex(0));
  EXPECT_EQ(plan->programs[1].home, LocalIndex(3));
}

TEST_F(PlanCacheTest, DistinguishesRootsAndScales) {
  PlanCache cache(layout_, strategy_, HostIndex(0));
  const auto one = *Get(cache, {.kind = OpKind::kBroadcast, .root = Rank(1), .scaled = false});
  EXPECT_NE(*Get(cache, {.kind = OpKind::kBroadcast, .root = Rank(2), .scaled = false}), one);
  const auto plain = *Get(cache, {.kind = OpKind::kAllReduce, .root = Rank(0), .scaled = false});
  EXPECT_NE(*Get(cache, {.kind = OpKind::kAllReduce, .root = Rank(0), .scaled = true}), plain);
}

TEST_F(PlanCacheTest, ReturnsErrorForKindWithoutPlan) {
  PlanCache cache(layout_, strategy_, HostIndex(0));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Get(cache, {.kind = OpKind::kBroadcast, .root = Rank(9), .scaled = false}).ok());
  }
}

// Lanes of mccsd's default shape to 1,023 hosts would need more than kMaxLaneMemoryBytes.
TEST_F(PlanCacheTest, ChoosesAGridIfLanesToAllHostsDoNotFit) {
  const Config defaults;
  for (const auto& [hosts, expected] : {std::pair(446, Algorithm::kDirect),
                                        {447, Algorithm::kGrid},
                                        {1009, Algorithm::kGrid},
                                        {1024, Algorithm::kGrid}}) {
    Layout layout;
    std::vector<HostIndex> ring;
    for (int h = 0; h < hosts; ++h) {
      layout.hosts.push_back({Rank(h)});
      ring.push_back(HostIndex(h));
    }
    Strategy strategy;
    strategy.lanes = defaults.lanes;
    strategy.channels.assign(static_cast<size_t>(defaults.channels),
                             {.ring = ring, .source_ports = {}});
    PlanCache cache(layout, strategy, HostIndex(0));
    EXPECT_EQ(Choose(cache, OpKind::kAllToAll, uint64_t{1} << 30), expected) << hosts;
    EXPECT_TRUE(Get(cache, {.kind = OpKind::kAllToAll, .algorithm = expected}).ok());
  }
}

TEST_F(PlanCacheTest, DistinguishesAlgorithms) {
  PlanCache cache(layout_, strategy_, HostIndex(0));
  const auto ring = *Get(cache, {.kind = OpKind::kAllReduce, .algorithm = Algorithm::kRing});
  const auto direct = *Get(cache, {.kind = OpKind::kAllReduce, .algorithm = Algorithm::kDirect});
  EXPECT_NE(ring, direct);
  EXPECT_EQ(direct->key.algorithm, Algorithm::kDirect);
}

TEST_F(PlanCacheTest, ChoosesAlgorithmOfStrategy) {
  strategy_.algorithms.rules = {
      {.kind = OpKind::kAllReduce, .algorithm = Algorithm::kDirect, .max_bytes = 1000},
      {.kind = OpKind::kAllReduce, .algorithm = Algorithm::kRing}};
  PlanCache cache(layout_, strategy_, HostIndex(0));
  EXPECT_EQ(Choose(cache, OpKind::kAllReduce, 1000), Algorithm::kDirect);
  EXPECT_EQ(Choose(cache, OpKind::kAllReduce, 1001), Algorithm::kRing);
}

// ---- Work in parts ------------------------------------------------------------------------------

class PlanOfManyHosts : public testing::Test {
 protected:
  static constexpr int kHosts = 64;
  static constexpr int kChannels = 4;

  PlanOfManyHosts() {
    std::vector<HostIndex> ring;
    for (int h = 0; h < kHosts; ++h) {
      layout_.hosts.push_back({Rank(2 * h), Rank(2 * h + 1)});
      ring.push_back(HostIndex(h));
    }
    strategy_.lanes = {.slots = 4, .slot_bytes = 64u << 10};
    strategy_.channels.assign(kChannels, {.ring = ring, .source_ports = {}});
    cache_.emplace(layout_, strategy_, HostIndex(0));
  }
  // Works part by part until `done`. Returns the cost of each part.
  std::vector<int64_t> CostsUntil(const std::function<bool()>& done) {
    std::vector<int64_t> costs;
    while (!done()) {
      const int64_t before = cache_->cost();
      cache_->Work(1);
      costs.push_back(cache_->cost() - before);
    }
    return costs;
  }

  Layout layout_;
  Strategy strategy_;
  std::optional<PlanCache> cache_;
};

TEST_F(PlanOfManyHosts, IsBuiltChannelByChannel) {
  const PlanKey key{.kind = OpKind::kAllGather, .algorithm = Algorithm::kRing};
  EXPECT_FALSE(cache_->has_work());
  const std::vector<int64_t> costs = CostsUntil([&] { return *cache_->Find(key) != nullptr; });
  ASSERT_EQ(costs.size(), 1u + kChannels) << "the checks, and each channel";
  for (size_t c = 2; c < costs.size(); ++c) EXPECT_EQ(costs[c], costs[1]) << c;
  EXPECT_FALSE(cache_->has_work());
  const int64_t before = cache_->cost();
  EXPECT_NE(*cache_->Find(key), nullptr);
  EXPECT_EQ(cache_->cost(), before) << "a cached plan costs nothing";
}

TEST_F(PlanOfManyHosts, OfManyRanksIsBuiltInShortParts) {
  for (std::vector<Rank>& ranks : layout_.hosts) ranks.clear();
  for (int r = 0; r < 16 * kHosts; ++r)
    layout_.hosts[static_cast<size_t>(r / 16)].push_back(Rank(r));
  cache_.emplace(layout_, strategy_, HostIndex(0));
  const PlanKey key{.kind = OpKind::kAllToAll, .algorithm = Algorithm::kDirect};
  const std::vector<int64_t> costs = CostsUntil([&] { return *cache_->Find(key) != nullptr; });
  const int64_t all = std::accumulate(costs.begin(), costs.end(), int64_t{0});
  EXPECT_GE(costs.size(), 4u * kChannels);
  for (const int64_t cost : costs) EXPECT_LE(cost, all / 16);
}

TEST_F(PlanOfManyHosts, EstimateIsWeighedInShortParts) {
  const PlanKey key{.kind = OpKind::kAllToAll, .algorithm = Algorithm::kDirect};
  strategy_.algorithms.rules = {{.kind = key.kind, .algorithm = key.algorithm}};
  cache_.emplace(layout_, strategy_, HostIndex(0));
  CostsUntil([&] { return *cache_->Find(key) != nullptr; });
  const EstimatedCall call{key.kind, DataType::kInt8, 0, 1 << 20};
  const std::vector<int64_t> costs =
      CostsUntil([&] { return cache_->EstimateUs(call)->has_value(); });
  EXPECT_GE(std::ranges::count_if(costs, [](int64_t cost) { return cost > 0; }), kChannels)
      << "each channel";
}

TEST_F(PlanOfManyHosts, ChoiceIsPreparedPlanByPlan) {
  const auto chosen = [&] { return cache_->AlgorithmFor(OpKind::kAllReduce, 1).has_value(); };
  const std::vector<int64_t> choice = CostsUntil(chosen);
  EXPECT_GE(choice.size(), 3u);
  const PlanKey key{.kind = OpKind::kAllReduce, .algorithm = Algorithm::kRing};
  const std::vector<int64_t> plan = CostsUntil([&] { return *cache_->Find(key) != nullptr; });
  EXPECT_LE(*std::ranges::max_element(choice), 2 * *std::ranges::max_element(plan))
      << "a part is at most about a channel of a plan";
}

TEST_F(PlanOfManyHosts, RequestsThatAlternateAreAllServed) {
  const PlanKey gather{.kind = OpKind::kAllGather, .algorithm = Algorithm::kRing};
  const PlanKey reduce{.kind = OpKind::kAllReduce, .algorithm = Algorithm::kRing};
  bool gathered = false;
  bool reduced = false;
  const std::vector<int64_t> costs = CostsUntil([&] {
    gathered |= *cache_->Find(gather) != nullptr;
    reduced |= *cache_->Find(reduce) != nullptr;
    return gathered && reduced;
  });
  EXPECT_LE(costs.size(), 3u * (1 + kChannels));
}

TEST_F(PlanOfManyHosts, EstimateOfABuiltPlanCostsNothing) {
  const EstimatedCall call{OpKind::kAllGather, DataType::kInt8, 0, 1 << 20};
  CostsUntil([&] { return cache_->EstimateUs(call)->has_value(); });
  const int64_t before = cache_->cost();
  EXPECT_TRUE(cache_->EstimateUs(call)->has_value());
  EXPECT_EQ(cache_->cost(), before);
  EXPECT_FALSE(cache_->has_work());
}

// ---- Roots --------------------------------------------------------------------------------------

class ManyRoots : public PlanCacheTest {
 protected:
  static constexpr int kRoots = 3 * static_cast<int>(kMaxCachedPlans);
  ManyRoots() {
    layout_.hosts = {{}, {}};
    for (int r = 0; r < kRoots; ++r) layout_.hosts[static_cast<size_t>(r % 2)].push_back(Rank(r));
  }
  static PlanKey Broadcast(int root) {
    return {.kind = OpKind::kBroadcast, .root = Rank(root), .scaled = false};
  }
};

TEST_F(ManyRoots, StayWithinTheLimit) {
  PlanCache cache(layout_, strategy_, HostIndex(0));
  for (int root = 0; root < kRoots; ++root) {
    const auto plan = Get(cache, Broadcast(root));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ((*plan)->key, Broadcast(root));
    EXPECT_LE(cache.size(), kMaxCachedPlans);
  }
  EXPECT_EQ(cache.size(), kMaxCachedPlans);
}

TEST_F(ManyRoots, EvictLeastRecentlyUsedPlan) {
  PlanCache cache(layout_, strategy_, HostIndex(0));
  const std::weak_ptr<const Plan> used = *Get(cache, Broadcast(0));
  const std::weak_ptr<const Plan> unused = *Get(cache, Broadcast(1));
  for (int root = 2; root < kRoots; ++root) {
    ASSERT_TRUE(Get(cache, Broadcast(root)).ok());
    ASSERT_EQ(*Get(cache, Broadcast(0)), used.lock()) << "in use all the time";
  }
  EXPECT_TRUE(unused.expired());
}

TEST_F(ManyRoots, KeepRunningPlanAlive) {
  PlanCache cache(layout_, strategy_, HostIndex(0));
  const auto running = *Get(cache, Broadcast(0));
  for (int root = 1; root < kRoots; ++root) ASSERT_TRUE(Get(cache, Broadcast(root)).ok());
  EXPECT_EQ(running.use_count(), 1) << "out of the cache";
  EXPECT_EQ(running->programs.size(), 2u);
}

// ---- Memory -------------------------------------------------------------------------------------

class LargePlans : public PlanOfManyHosts {
 protected:
  static PlanKey KeyOf(int number) {
    const OpKind kinds[] = {OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllReduce};
    const OpKind kind = kinds[number % 3];
    return {.kind = kind,
            .algorithm = Algorithm::kRing,
            .scaled = Reduces(kind) && number / 3 % 2 == 1};
  }
};

TEST_F(LargePlans, StayWithinTheLimitOfMemory) {
  constexpr uint64_t kLimit = 500 << 10;
  PlanCache cache(layout_, strategy_, HostIndex(0), /*runners=*/{},
                  BudgetShare(nullptr, Resource::kPlanMemory), kLimit);
  size_t most = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Get(cache, KeyOf(i)).ok());
    EXPECT_LE(cache.bytes(), kLimit);
    most = std::max(most, cache.size());
  }
  EXPECT_GE(most, 2u) << "several fit";
  EXPECT_LE(most, 4u) << "but not all five";
}

TEST_F(LargePlans, TheNewestOneStaysWhateverItsSize) {
  PlanCache cache(layout_, strategy_, HostIndex(0), /*runners=*/{},
                  BudgetShare(nullptr, Resource::kPlanMemory), /*max_bytes=*/1);
  const auto one = *Get(cache, KeyOf(0));
  EXPECT_EQ(*Get(cache, KeyOf(0)), one);
  EXPECT_EQ(cache.bytes(), MemoryBytes(*one));
  const auto other = *Get(cache, KeyOf(1));
  EXPECT_EQ(cache.bytes(), MemoryBytes(*other));
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(one.use_count(), 1) << "out of the cache, and still valid";
  EXPECT_EQ(one->programs.size(), static_cast<size_t>(kChannels));
}

TEST_F(LargePlans, BeyondTheTenantsShareReplaceOthersOrAreRefused) {
  HostLimits limits;
  PlanCache probe(layout_, strategy_, HostIndex(0));
  const uint64_t bytes = MemoryBytes(**Get(probe, KeyOf(0)));
  limits[Resource::kPlanMemory] = 5 * bytes;
  HostBudget budget(limits);
  const auto blue = budget.Of("blue", "", std::make_shared<TenantCounters>());
  PlanCache cache(layout_, strategy_, HostIndex(0), /*runners=*/{},
                  BudgetShare(blue, Resource::kPlanMemory));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Get(cache, KeyOf(i)).ok());
    EXPECT_LE(2 * budget.held(Resource::kPlanMemory), 5 * bytes);
    EXPECT_EQ(budget.held(Resource::kPlanMemory), cache.bytes());
  }
  PlanCache other(layout_, strategy_, HostIndex(0), /*runners=*/{},
                  BudgetShare(blue, Resource::kPlanMemory));
  const absl::Status refused = Get(other, KeyOf(0)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(refused.message(),
              testing::HasSubstr("too much memory of plans on this host: tenant blue"));
  EXPECT_TRUE(Get(cache, KeyOf(1)).ok()) << "the communicator that has plans goes on";
}

TEST_F(ManyRoots, WithoutPlanAreNotCached) {
  PlanCache cache(layout_, strategy_, HostIndex(0));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Get(cache, Broadcast(kRoots + i)).ok());
  EXPECT_EQ(cache.size(), 0u);
}

constexpr CostParameters kFigures{.operation_us = 10,
                                  .hop_us = 20,
                                  .slice_us = 0,
                                  .lane_bytes_per_us = 1000,
                                  .host_bytes_per_us = 100'000,
                                  .local_bytes_per_us = 8000};

class PlanEstimates : public testing::Test {
 protected:
  static Strategy RingOfTwo() {
    Strategy strategy;
    strategy.channels = {{{HostIndex(0), HostIndex(1)}, {}}};
    strategy.lanes = {.slots = 4, .slot_bytes = 1 << 16};
    strategy.algorithms.costs = kFigures;
    return strategy;
  }
  absl::StatusOr<double> Of(const EstimatedCall& call) {
    for (;;) {
      const auto estimate = plans_.EstimateUs(call);
      if (!estimate.ok()) return estimate.status();
      if (estimate->has_value()) return **estimate;
      plans_.Work(1);
    }
  }

  PlanCache plans_{{{{Rank(0), Rank(2)}, {Rank(1)}}}, RingOfTwo(), HostIndex(0)};
};

TEST_F(PlanEstimates, CollectivesUseThePlanCost) {
  const auto small = Of({OpKind::kAllReduce, DataType::kFloat32, 0, 1});
  const auto large = Of({OpKind::kAllReduce, DataType::kFloat32, 0, 1 << 26});
  ASSERT_TRUE(small.ok()) << small.status();
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_NEAR(*small, 10 + 20, 1) << "direct";
  EXPECT_NEAR(*large, (4 << 26) / 1000.0, 0.02 * (4 << 26) / 1000.0);
}

TEST_F(PlanEstimates, MessagesDependOnPeerLocation) {
  EXPECT_EQ(*Of({OpKind::kSend, DataType::kInt8, 2, 4000}), 10 + 1);
  EXPECT_EQ(*Of({OpKind::kRecv, DataType::kInt8, 1, 4000}), 10 + 20 + 4);
}

// The call comes from a tenant.
TEST_F(PlanEstimates, RejectsInvalidCalls) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  for (const EstimatedCall& bad :
       {EstimatedCall{OpKind::kNone, DataType::kInt8, 0, 1},
        EstimatedCall{static_cast<OpKind>(200), DataType::kInt8, 0, 1},
        EstimatedCall{OpKind::kAllReduce, static_cast<DataType>(12), 0, 1},
        EstimatedCall{OpKind::kBroadcast, DataType::kInt8, 3, 1},
        EstimatedCall{OpKind::kReduce, DataType::kInt8, -1, 1},
        EstimatedCall{OpKind::kSend, DataType::kInt8, 3, 1},
        EstimatedCall{OpKind::kAllGather, DataType::kInt64, 0, most},
        EstimatedCall{OpKind::kAllReduce, DataType::kInt8, 0, most / 2}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Of(bad).status())) << static_cast<int>(bad.kind);
  }
}

}  // namespace plan_cache_test
}  // namespace mccs
