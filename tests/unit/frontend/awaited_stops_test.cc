#include "service/frontend/awaited_stops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace mccs {
namespace awaited_stops_test {

using testing::ElementsAre;
using testing::HasSubstr;

// Two processes of one tenant.
class AwaitedStopsTest : public testing::Test {
 protected:
  void Turn() {
    ++turn_;
    looks_ = 0;
    tenant_.BeginTurn(turn_);
    TurnBudget budget(/*ranks=*/1);
    budget.ServeTenant(tenant_);
    for (AwaitedStops* process : {&first_, &second_}) {
      process->Poll(
          budget,
          [&](const AwaitedStop& stop) {
            ++looks_;
            return stopped_.contains(stop.request);
          },
          [&](const AwaitedStop& stop) { answered_.push_back(stop.request); });
    }
  }

  uint64_t turn_ = 0;
  TenantBudget tenant_;
  AwaitedStops first_, second_;
  std::set<uint64_t> stopped_;
  std::vector<uint64_t> answered_;
  int looks_ = 0;
};

// A tenant chooses how many there are, and how long each look takes.
TEST_F(AwaitedStopsTest, ATurnLooksAtFewOfAllProcessesOfATenant) {
  for (uint64_t i = 0; i < 500; ++i) {
    EXPECT_TRUE(first_.Add({.request = i}).ok());
    EXPECT_TRUE(second_.Add({.request = 1000 + i}).ok());
  }
  for (int i = 0; i < 10; ++i) {
    Turn();
    EXPECT_EQ(looks_, TenantBudget::kPerTurn / AwaitedStops::kCost);
  }
}

TEST_F(AwaitedStopsTest, AnswersEachOnceItHasStopped) {
  for (uint64_t i = 1; i <= 100; ++i) EXPECT_TRUE(first_.Add({.request = i}).ok());
  Turn();
  EXPECT_THAT(answered_, ElementsAre());
  stopped_ = {3, 99};
  for (int i = 0; i < 7; ++i) Turn();
  EXPECT_THAT(answered_, ElementsAre(99, 3)) << "the turns go on where the last one ended";
  EXPECT_FALSE(first_.empty());
}

TEST_F(AwaitedStopsTest, AProcessMayAwaitALimitedNumber) {
  for (size_t i = 0; i < AwaitedStops::kMax; ++i) ASSERT_TRUE(first_.Add({.request = i}).ok());
  EXPECT_THAT(std::string(first_.Add({}).message()), HasSubstr("which is the limit"));
}

}  // namespace awaited_stops_test
}  // namespace mccs
