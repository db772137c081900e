// Home ranks of a strategy: collectives are correct with any, also while they change, and a
// strategy with an impossible one is rejected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace home_ranks_test {

using testing::HasSubstr;

constexpr uint64_t kElements = 30'000;

class SimHomeRanks : public testing::Test {
 protected:
  // Random homes among the three ranks of host 0 and the two of host 1.
  Strategy WithRandomHomes(uint64_t epoch, std::mt19937_64& random) {
    Strategy strategy = MakeRingStrategy(Epoch(epoch), {HostIndex(0), HostIndex(1)}, 2);
    for (ChannelStrategy& channel : strategy.channels) {
      channel.homes = {LocalIndex(static_cast<int32_t>(random() % 3)),
                       LocalIndex(static_cast<int32_t>(random() % 2))};
    }
    return strategy;
  }

  RunningJob run_{1, {0, 0, 0, 1, 1}, 5 * kElements * sizeof(float)};
};

TEST_F(SimHomeRanks, CollectivesAreCorrectWithAnyHomes) {
  std::mt19937_64 random(1);
  uint64_t epoch = 1;
  for (int change = 0; change < 10; ++change) {
    SCOPED_TRACE(change);
    ASSERT_TRUE(run_.changes.Apply(WithRandomHomes(++epoch, random)));
    for (const OpKind kind : {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kBroadcast,
                              OpKind::kReduceScatter, OpKind::kReduce}) {
      run_.job.Fill(5 * kElements);
      run_.job.PostAll(kind, kElements);
      EXPECT_EQ(run_.job.Finish(kind, kElements), "");
    }
  }
}

TEST_F(SimHomeRanks, HomesChangeWhileOperationsRun) {
  std::mt19937_64 random(2);
  uint64_t epoch = 1;
  run_.job.Fill(kElements);
  for (int change = 0; change < 10; ++change) {
    for (int i = 0; i < 3; ++i) run_.job.PostAll(OpKind::kAllReduce, kElements);
    run_.changes.Propose(WithRandomHomes(++epoch, random));
    run_.world.RunFor(RandomUs(random, 3000));
  }
  ASSERT_TRUE(run_.world.RunUntil([&] { return run_.job.Done() && run_.changes.AllAt(epoch); }))
      << run_.job.rank(0).failure();
  EXPECT_EQ(run_.job.Wrong(OpKind::kAllReduce, kElements), 0u);
}

TEST_F(SimHomeRanks, StrategyWithImpossibleHomeIsRejected) {
  std::mt19937_64 random(3);
  Strategy strategy = WithRandomHomes(2, random);
  strategy.channels[1].homes[1] = LocalIndex(2);
  run_.changes.Propose(strategy);
  ASSERT_TRUE(run_.world.RunUntil([&] { return !run_.changes.change_error().empty(); }));
  EXPECT_THAT(run_.changes.change_error(), HasSubstr("channel 1: home rank 2 on host 1"));
  ASSERT_TRUE(run_.changes.Apply(WithRandomHomes(3, random))) << "the next one must be accepted";
  run_.job.Fill(kElements);
  run_.job.PostAll(OpKind::kAllReduce, kElements);
  EXPECT_EQ(run_.job.Finish(OpKind::kAllReduce, kElements), "");
}

}  // namespace home_ranks_test
}  // namespace mccs
