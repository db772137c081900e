#include "service/host_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace mccs {
namespace host_budget_test {

using testing::AllOf;
using testing::HasSubstr;

class HostBudgetTest : public testing::Test {
 protected:
  static HostLimits Limits() {
    HostLimits limits;
    limits[Resource::kCommunicators] = 100;
    limits[Resource::kLaneMemory] = 64 * kMiB;
    return limits;
  }
  std::shared_ptr<TenantResources> Of(const std::string& tenant, const std::string& group = "") {
    return budget_.Of(tenant, group, counters_.Of(tenant));
  }
  // As many as the tenant gets, one at a time.
  static uint64_t TakeAll(BudgetShare& share) {
    const uint64_t before = share.held();
    while (share.Take().ok()) {
    }
    return share.held() - before;
  }

  DaemonCounters counters_;
  HostBudget budget_{Limits()};
};

TEST_F(HostBudgetTest, ATenantHoldsNoMoreThanItLeavesFree) {
  BudgetShare red(Of("red"), Resource::kCommunicators);
  BudgetShare blue(Of("blue"), Resource::kCommunicators);
  BudgetShare green(Of("green"), Resource::kCommunicators);
  EXPECT_EQ(TakeAll(red), 50u);
  EXPECT_EQ(TakeAll(blue), 25u);
  EXPECT_EQ(TakeAll(green), 12u);
  EXPECT_EQ(TakeAll(red), 0u);
  // All may take what one returns.
  red.ReturnAll();
  EXPECT_EQ(TakeAll(green), 25u);  // then 37 of 100 are green's, 25 are blue's, 38 are free
}

TEST_F(HostBudgetTest, SharesOfOneTenantCountTogether) {
  BudgetShare first(Of("red"), Resource::kCommunicators);
  BudgetShare second(Of("red"), Resource::kCommunicators);
  EXPECT_TRUE(first.Take(30).ok());
  EXPECT_TRUE(second.Take(20).ok());
  EXPECT_FALSE(second.Take().ok());
  first.Return(5);
  EXPECT_TRUE(second.Take(5).ok());
}

TEST_F(HostBudgetTest, ManyNamesOfAGroupGetNoMoreThanOneTenant) {
  BudgetShare first(Of("uid 1", "users"), Resource::kCommunicators);
  EXPECT_EQ(TakeAll(first), 25u);
  std::deque<BudgetShare> shares;
  uint64_t all = 25;
  for (int uid = 2; uid < 100; ++uid) {
    shares.emplace_back(Of("uid " + std::to_string(uid), "users"), Resource::kCommunicators);
    all += TakeAll(shares.back());
  }
  EXPECT_LT(all, 50u) << "a part of the group's share is free for its next tenant";
  EXPECT_GT(all, 45u);
  // Beside it, a tenant without a group gets half of the rest, as beside any other tenant.
  BudgetShare red(Of("red"), Resource::kCommunicators);
  EXPECT_GE(TakeAll(red), 25u);
  const absl::Status refused = first.Take(30);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("tenant uid 1 has 25 and asks for 30 more"),
                                       HasSubstr("are free for users together, and a tenant")));
  // The group's share shrinks with what others hold; it then gets nothing more.
  EXPECT_EQ(TakeAll(first), 0u);
  shares.clear();
  red.ReturnAll();
  first.ReturnAll();
  EXPECT_EQ(TakeAll(first), 25u) << "all was returned";
}

TEST_F(HostBudgetTest, ResourcesAreIndependent) {
  BudgetShare communicators(Of("red"), Resource::kCommunicators);
  TakeAll(communicators);
  BudgetShare memory(Of("red"), Resource::kLaneMemory);
  EXPECT_TRUE(memory.Take(32 * kMiB).ok());
}

TEST_F(HostBudgetTest, ARefusalHasNumbersAndRemedyAndChangesNothing) {
  BudgetShare communicators(Of("red"), Resource::kCommunicators);
  ASSERT_TRUE(communicators.Take(40).ok());
  const absl::Status refused = communicators.Take(11);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(refused.message(),
            "too many communicators on this host: tenant red has 40 and asks for 11 more, 60 of "
            "100 are free, and a tenant may not have more than it leaves free; destroy unused "
            "communicators, or ask the operator to raise limits.communicators in mccsd's "
            "configuration");
  EXPECT_EQ(communicators.held(), 40u);
  EXPECT_EQ(budget_.held(Resource::kCommunicators), 40u);
  BudgetShare memory(Of("red"), Resource::kLaneMemory);
  EXPECT_THAT(memory.Take(33 * kMiB).message(),
              AllOf(HasSubstr("has 0 B and asks for 33 MiB more, 64 MiB of 64 MiB are free"),
                    HasSubstr("limits.lane_memory")));
  BudgetShare descriptors(Of("red"), Resource::kDescriptors);
  EXPECT_THAT(descriptors.Take(~uint64_t{0}).message(), HasSubstr("LimitNOFILE"));
}

// An owner of unused objects returns so much of them.
TEST_F(HostBudgetTest, SaysHowMuchATenantMustReturn) {
  BudgetShare other(Of("blue"), Resource::kCommunicators);
  ASSERT_TRUE(other.Take(20).ok());
  for (const char* group : {"", "users"}) {
    SCOPED_TRACE(group);
    BudgetShare share(Of("red", group), Resource::kCommunicators);
    const uint64_t most = TakeAll(share);  // half of 80, or of 40
    EXPECT_EQ(most, *group == 0 ? 40u : 20u);
    for (uint64_t amount : {uint64_t{1}, uint64_t{7}, most}) {
      EXPECT_EQ(share.Lacking(amount), amount);
      share.Return(amount - 1);
      EXPECT_EQ(share.Lacking(amount), 1u);
      EXPECT_FALSE(share.Take(amount).ok());
      share.Return(1);
      EXPECT_EQ(share.Lacking(amount), 0u);
      EXPECT_TRUE(share.Take(amount).ok());
    }
    EXPECT_EQ(share.Lacking(most + 1), std::nullopt);
    EXPECT_EQ(share.Lacking(~uint64_t{0}), std::nullopt);
  }
}

TEST_F(HostBudgetTest, CountsByTenant) {
  {
    BudgetShare share(Of("red"), Resource::kCommunicators);
    ASSERT_TRUE(share.Take(7).ok());
    EXPECT_FALSE(share.Take(100).ok());
    const auto& red = *counters_.Of("red");
    EXPECT_EQ(red.held[static_cast<size_t>(Resource::kCommunicators)].value(), 7);
    EXPECT_EQ(red.refused[static_cast<size_t>(Resource::kCommunicators)].value(), 1u);
  }
  EXPECT_EQ(counters_.Of("red")->held[static_cast<size_t>(Resource::kCommunicators)].value(), 0);
}

TEST_F(HostBudgetTest, ShareMovesAndMayOutliveTheBudget) {
  auto budget = std::make_unique<HostBudget>(Limits());
  BudgetShare share(budget->Of("red", "", counters_.Of("red")), Resource::kCommunicators);
  ASSERT_TRUE(share.Take(3).ok());
  BudgetShare moved = std::move(share);
  budget.reset();
  EXPECT_EQ(moved.held(), 3u);
  moved.ReturnAll();
  EXPECT_TRUE(moved.Take(50).ok());
}

TEST_F(HostBudgetTest, WithoutABudgetNothingIsLimited) {
  BudgetShare share(nullptr, Resource::kMappings);
  EXPECT_EQ(share.Lacking(~uint64_t{0}), 0u);
  EXPECT_TRUE(share.Take(~uint64_t{0}).ok());
}

// Whatever tenants take and return: sums agree, and nothing is over-committed.
TEST_F(HostBudgetTest, SumsAgreeForRandomTenants) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::deque<BudgetShare> shares;
  for (int i = 0; i < 20; ++i)
    shares.emplace_back(Of(std::to_string(i % 5), i % 5 < 2 ? "" : "group"),
                        Resource::kCommunicators);
  for (int step = 0; step < 10000; ++step) {
    BudgetShare& share = shares[random() % shares.size()];
    if (random() % 3 > 0) {
      const uint64_t amount = 1 + random() % 7;
      const bool lacks = share.Lacking(amount) != 0;
      ASSERT_EQ(share.Take(amount).ok(), !lacks);
    } else {
      share.Return(random() % (share.held() + 1));
    }
    uint64_t sum = 0;
    for (const BudgetShare& each : shares) sum += each.held();
    ASSERT_EQ(budget_.held(Resource::kCommunicators), sum);
    ASSERT_LT(sum, 100u) << "nothing is free for the next tenant";
  }
}

}  // namespace host_budget_test
}  // namespace mccs
