// How the engine shares its turns between tenants. The work per turn is counted, not timed.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <string>
#include <vector>

#include "service/communicator/turns/turn_cost.h"
#include "tests/sim/sim_job.h"

namespace mccs {
namespace tenant_turns_test {

constexpr uint64_t kCount = 2;  // float32
constexpr uint64_t kCalls = 192;
constexpr size_t kMany = 64;
// Calls completed in a turn of the engine.
constexpr uint64_t kMostPerTurn = kEngineTurnCost / kCallCost + OperationLoop::kOperationsPerTurn;

// Communicators of two ranks on one host, whose processes have posted kCalls small calls each.
class TenantTurns : public testing::Test {
 protected:
  TenantTurns() : world_({.hosts = 1}) {}

  // Adds a tenant with so many communicators.
  std::deque<SimJob>& AddTenant(const std::string& name, size_t communicators) {
    std::deque<SimJob>& jobs = tenants_.emplace_back();
    for (size_t i = 0; i < communicators; ++i) {
      jobs.emplace_back(world_, std::vector<int>{0, 0}, kCount * sizeof(float), name);
      EXPECT_TRUE(jobs.back().Form());
    }
    return jobs;
  }
  void PostAll() {
    for (std::deque<SimJob>& jobs : tenants_) {
      for (SimJob& job : jobs) {
        for (uint64_t call = 0; call < kCalls; ++call) job.PostAll(OpKind::kAllReduce, kCount);
      }
    }
  }
  // Completed calls of all communicators.
  static uint64_t DoneOf(std::deque<SimJob>& jobs) {
    uint64_t done = 0;
    for (SimJob& job : jobs) done += job.rank(0).done();
    return done;
  }
  bool Turn() { return world_.host(0).daemon().Poll(); }

  SimWorld world_;
  std::deque<std::deque<SimJob>> tenants_;
};

TEST_F(TenantTurns, ATenantWithManyCommunicatorsDoesNotSlowDownATenantWithOne) {
  std::deque<SimJob>& many = AddTenant("red", kMany);
  std::deque<SimJob>& one = AddTenant("blue", 1);
  PostAll();
  for (int turn = 0; turn < 1000 && DoneOf(one) < kCalls; ++turn) Turn();
  ASSERT_EQ(DoneOf(one), kCalls);
  // The last turn may have continued without the tenant that had nothing left to do.
  EXPECT_LE(DoneOf(many), kCalls + kMostPerTurn);
  for (int turn = 0; turn < 10'000 && DoneOf(many) < kMany * kCalls; ++turn) Turn();
  EXPECT_EQ(DoneOf(many), kMany * kCalls);
}

TEST_F(TenantTurns, ManyTenantsCompleteEquallyManyCalls) {
  constexpr size_t kTenants = 16;
  for (size_t t = 0; t < kTenants; ++t) AddTenant("tenant " + std::to_string(t), 1 + t % 8);
  PostAll();
  for (int turn = 0; turn < 1000; ++turn) {
    Turn();
    uint64_t least = kCalls * 8;
    uint64_t most = 0;
    bool all_busy = true;
    for (std::deque<SimJob>& jobs : tenants_) {
      const uint64_t done = DoneOf(jobs);
      all_busy &= done < kCalls * jobs.size();
      least = std::min(least, done);
      most = std::max(most, done);
    }
    if (!all_busy) break;
    // Two turns of a communicator.
    ASSERT_LE(most - least, 2u * OperationLoop::kOperationsPerTurn) << "turn " << turn;
  }
}

// However many communicators have work, a turn of the engine does a limited part of it.
TEST_F(TenantTurns, ATurnCompletesALimitedNumberOfCalls) {
  std::deque<SimJob>& many = AddTenant("red", kMany);
  PostAll();
  uint64_t before = 0;
  for (int turn = 0; turn < 10'000 && before < kMany * kCalls; ++turn) {
    EXPECT_TRUE(Turn()) << "a turn that leaves work must be followed by another one";
    const uint64_t done = DoneOf(many);
    ASSERT_LE(done - before, kMostPerTurn) << "turn " << turn;
    before = done;
  }
  EXPECT_EQ(before, kMany * kCalls);
}

// ---- Plans --------------------------------------------------------------------------------------

// Tenants with a communicator of two ranks, and one whose communicator has many. It needs a new
// plan for each root and kind of call: more than are cached or loaded.
class PlansOfATenant : public TenantTurns {
 protected:
  static constexpr size_t kOthers = 31;
  static constexpr int kRoots = 64;
  static constexpr OpKind kRooted[] = {OpKind::kGather, OpKind::kScatter, OpKind::kBroadcast,
                                       OpKind::kReduce};

  PlansOfATenant()
      : many_roots_(world_, std::vector<int>(kRoots, 0), kRoots * kCount * sizeof(float), "red") {
    EXPECT_TRUE(many_roots_.Form());
    for (size_t t = 0; t < kOthers; ++t) AddTenant("tenant " + std::to_string(t), 1);
  }
  // The call `i` of the tenant with many roots.
  static OpKind KindOf(uint64_t i) { return kRooted[i / kRoots % std::size(kRooted)]; }
  static int RootOf(uint64_t i) { return static_cast<int>(i % kRoots); }
  // Turns until the others have completed their calls.
  void RunOthers() {
    PostAll();
    const auto done = [&] {
      return std::ranges::all_of(tenants_, [](auto& jobs) { return DoneOf(jobs) == kCalls; });
    };
    for (int turn = 0; turn < 10'000 && !done(); ++turn) Turn();
    EXPECT_TRUE(done());
  }

  SimJob many_roots_;
};

TEST_F(PlansOfATenant, CallsWithNewPlansTakeNoMoreThanAShare) {
  static_assert(kCalls > kMaxCachedPlans && kCalls > kMaxIdlePlans);
  for (uint64_t i = 0; i < kCalls; ++i) many_roots_.PostAll(KindOf(i), kCount, RootOf(i));
  RunOthers();
  const uint64_t done = many_roots_.rank(0).done();
  EXPECT_GT(done, 0u);
  EXPECT_LE(done, kCalls / 2) << "each call costs more than those of the others";
  for (int turn = 0; turn < 10'000 && many_roots_.rank(0).done() < kCalls; ++turn) Turn();
  EXPECT_EQ(many_roots_.rank(0).done(), kCalls);
}

TEST_F(PlansOfATenant, EstimatesWithNewPlansTakeNoMoreThanAShare) {
  constexpr uint64_t kEstimates = std::size(kRooted) * kRoots;
  SimTenant& tenant = many_roots_.tenant(0);
  for (uint64_t i = 0; i < kEstimates; ++i)
    tenant.Estimate(many_roots_.rank(0), KindOf(i), RootOf(i), kCount);
  RunOthers();
  tenant.Poll();
  const size_t answered = tenant.estimates().size();
  EXPECT_GT(answered, 0u);
  EXPECT_LE(answered, kEstimates / 2) << "each costs more than a call of the others";
  EXPECT_TRUE(world_.RunUntil([&] { return tenant.estimates().size() == kEstimates; }));
}

TEST_F(PlansOfATenant, EstimatesThatWaitForTheirPlansDelayNoOtherRequest) {
  constexpr uint64_t kEstimates = 32;
  SimTenant& tenant = many_roots_.tenant(0);
  for (uint64_t i = 0; i < kEstimates; ++i)
    tenant.Estimate(many_roots_.rank(0), KindOf(i), RootOf(i), kCount);
  const wire::UniqueId before = tenant.unique_id();
  tenant.RequestUniqueId();
  // Each turn takes 16 messages.
  for (uint64_t turn = 0; turn < kEstimates / 16 + 1; ++turn) Turn();
  tenant.Poll();
  EXPECT_NE(tenant.unique_id().comm_id, before.comm_id);
  EXPECT_LT(tenant.estimates().size(), kEstimates);
  EXPECT_TRUE(world_.RunUntil([&] { return tenant.estimates().size() == kEstimates; }));
}

// A plan that is built and loaded costs nothing more.
TEST_F(PlansOfATenant, CallsWithTheSamePlanAreNotDelayed) {
  for (uint64_t i = 0; i < kCalls; ++i) many_roots_.PostAll(OpKind::kBroadcast, kCount, 0);
  RunOthers();
  EXPECT_GE(many_roots_.rank(0).done(), kCalls - 4 * OperationLoop::kOperationsPerTurn);
}

}  // namespace tenant_turns_test
}  // namespace mccs
