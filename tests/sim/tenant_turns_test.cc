// How the engine shares its turns between tenants. The work per turn is counted, not timed.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "service/communicator/turn_cost.h"
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

}  // namespace tenant_turns_test
}  // namespace mccs
