#include "service/communicator/plan_cache.h"

#include <gtest/gtest.h>

namespace mccs {
namespace {

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

TEST_F(PlanCacheTest, KeepsEachPlan) {
  PlanCache cache(layout_, strategy_, HostIndex(0));
  const PlanKey reduce{.kind = OpKind::kAllReduce, .root = Rank(0), .scaled = false};
  const PlanKey gather{.kind = OpKind::kAllGather, .root = Rank(0), .scaled = false};
  const Plan* first = *cache.GetOrBuild(reduce);
  EXPECT_EQ(first->programs.size(), 2u);
  const Plan* second = *cache.GetOrBuild(gather);
  EXPECT_NE(first, second);
  EXPECT_EQ(*cache.GetOrBuild(reduce), first);
  EXPECT_EQ(*cache.GetOrBuild(gather), second);
}

TEST_F(PlanCacheTest, TellsRootsAndScalesApart) {
  PlanCache cache(layout_, strategy_, HostIndex(0));
  const Plan* one = *cache.GetOrBuild({.kind = OpKind::kBroadcast, .root = Rank(1), .scaled = false});
  EXPECT_NE(*cache.GetOrBuild({.kind = OpKind::kBroadcast, .root = Rank(2), .scaled = false}), one);
  const Plan* plain = *cache.GetOrBuild({.kind = OpKind::kAllReduce, .root = Rank(0), .scaled = false});
  EXPECT_NE(*cache.GetOrBuild({.kind = OpKind::kAllReduce, .root = Rank(0), .scaled = true}), plain);
}

TEST_F(PlanCacheTest, AKindThatHasNoPlanIsAStatusEveryTime) {
  PlanCache cache(layout_, strategy_, HostIndex(0));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(cache.GetOrBuild({.kind = OpKind::kBroadcast, .root = Rank(9), .scaled = false}).ok());
  }
}

}  // namespace
}  // namespace mccs
