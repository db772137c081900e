#include "service/communicator/schedule/reached_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/messages/idle_port.h"

namespace mccs {
namespace reached_groups_test {

// A rank whose streams have reached groups with `left` calls that are not prepared.
class ReachedPort final : public IdlePort {
 public:
  absl::StatusOr<bool> PollCaptured(CapturedBudget* budget) override {
    ++polls;
    if (!error.ok()) return error;
    for (; left > 0 && budget->left() > 0; --left) budget->SpendCall();
    return left > 0;
  }

  size_t left = 0;
  int polls = 0;
  absl::Status error;
};

class ReachedGroupsTest : public testing::Test {
 protected:
  ReachedGroupsTest() {
    for (ReachedPort& port : ports_) ranks_.push_back({Rank(0), &port});
  }

  size_t Left() const {
    size_t left = 0;
    for (const ReachedPort& port : ports_) left += port.left;
    return left;
  }

  std::vector<ReachedPort> ports_ = std::vector<ReachedPort>(3);
  std::vector<LocalRank> ranks_;
};

TEST_F(ReachedGroupsTest, ATurnPreparesALimitedNumberOverAllRanks) {
  for (ReachedPort& port : ports_) port.left = 1000;
  ReachedGroups groups(ranks_);
  size_t before = Left();
  int64_t cost = 0;
  while (*groups.Poll()) {
    EXPECT_LE(before - Left(), 256u);
    EXPECT_GT(groups.cost(), cost);
    before = Left();
    cost = groups.cost();
  }
  EXPECT_EQ(Left(), 0u);
}

TEST_F(ReachedGroupsTest, TheNextTurnGoesOnWithTheNextRank) {
  ports_[0].left = ports_[2].left = 256;
  ReachedGroups groups(ranks_);
  EXPECT_FALSE(*groups.Poll());
  EXPECT_EQ(ports_[1].polls, 0);
  ports_[0].left = 256;  // again at once
  EXPECT_FALSE(*groups.Poll());
  EXPECT_EQ(ports_[1].polls, 1);
  EXPECT_EQ(ports_[2].left, 0u);
}

TEST_F(ReachedGroupsTest, RanksThatHaveLeftAreSkipped) {
  ranks_[1].port = nullptr;
  ports_[2].left = 1;
  ReachedGroups groups(ranks_);
  EXPECT_FALSE(*groups.Poll());
  EXPECT_EQ(Left(), 0u);
}

TEST_F(ReachedGroupsTest, ATenantsErrorIsReturned) {
  ports_[1].error = absl::InvalidArgumentError("freed");
  ReachedGroups groups(ranks_);
  EXPECT_EQ(groups.Poll().status(), ports_[1].error);
}

}  // namespace reached_groups_test
}  // namespace mccs
