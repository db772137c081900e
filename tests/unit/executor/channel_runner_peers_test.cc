// A program with lanes to and from several hosts.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "service/executor/channel_runner.h"
#include "tests/unit/executor/channel_runner_fixture.h"

namespace mccs {
namespace channel_runner_peers_test {

using ChannelRunnerPeersTest = ChannelRunnerFixture;

TEST_F(ChannelRunnerPeersTest, LaneWithoutCreditDoesNotBlockOthers) {
  Start({Sends(kFirstInput, {}, HostIndex(1)), Sends(kSecondInput, {}, HostIndex(2))}, 3);
  lanes_.to(1).credit = 0;
  Turn();
  EXPECT_EQ(lanes_.to(1).next(), 0u);
  ASSERT_EQ(lanes_.to(2).next(), 3u);
  for (uint64_t round = 0; round < 3; ++round)
    EXPECT_EQ(lanes_.to(2).Acknowledge(), Slice(round, 1'000'000));
  lanes_.to(1).credit = kNoLimit;
  Turn();
  ASSERT_EQ(lanes_.to(1).next(), 3u);
  EXPECT_FALSE(runner_.done());
  for (uint64_t round = 0; round < 3; ++round) EXPECT_EQ(lanes_.to(1).Acknowledge(), Slice(round));
  Turn();
  EXPECT_TRUE(runner_.done());
}

TEST_F(ChannelRunnerPeersTest, LateSlicesDoNotBlockOtherLanes) {
  Start({Receives(kFirstOutput, HostIndex(1)), Receives(kSecondOutput, HostIndex(3))}, 6);
  for (uint64_t round = 0; round < kRoundsInFlight; ++round) {
    Turn();
    ASSERT_TRUE(lanes_.from(3).Arrive(Slice(round, 5), TagOf(kOurCall)));
    EXPECT_EQ(lanes_.from(3).WhereWas(round), Landing::kDirect);
  }
  Turn();
  EXPECT_EQ(lanes_.from(3).released(), kRoundsInFlight) << "as far as rounds go";
  for (uint64_t round = 0; round < 6; ++round) {
    Turn();
    ASSERT_TRUE(lanes_.from(1).Arrive(Slice(round, 7), TagOf(kOurCall)));
    Turn();
    if (round + kRoundsInFlight >= 6) continue;
    ASSERT_TRUE(lanes_.from(3).Arrive(Slice(round + kRoundsInFlight, 5), TagOf(kOurCall)));
  }
  Turn();
  EXPECT_TRUE(runner_.done());
  for (uint64_t round = 0; round < 6; ++round) EXPECT_EQ(Output(round), Slice(round, 7));
}

TEST_F(ChannelRunnerPeersTest, EachLaneCountsItsOwnSlices) {
  const auto to_both = [&](HostIndex first, HostIndex second) {
    Start({Sends(kFirstInput, {}, first), Receives(kFirstOutput, second)}, 2);
    for (uint64_t round = 0; round < 2; ++round) {
      Turn();
      ASSERT_TRUE(lanes_.from(second.value()).Arrive(Slice(round, 7), TagOf(kOurCall)));
      Turn();
      EXPECT_EQ(lanes_.to(first.value()).Acknowledge(), Slice(round));
    }
    Turn();
    EXPECT_TRUE(runner_.done());
    for (uint64_t round = 0; round < 2; ++round) EXPECT_EQ(Output(round), Slice(round, 7));
  };
  to_both(HostIndex(1), HostIndex(1));
  to_both(HostIndex(2), HostIndex(3));
  to_both(HostIndex(1), HostIndex(3));
  to_both(HostIndex(3), HostIndex(1));
  EXPECT_EQ(lanes_.to(1).next(), 4u);
  EXPECT_EQ(lanes_.to(2).next(), 2u);
  EXPECT_EQ(lanes_.to(3).next(), 2u);
  EXPECT_EQ(lanes_.from(1).released(), 4u);
  EXPECT_EQ(lanes_.from(3).released(), 4u);
}

TEST_F(ChannelRunnerPeersTest, StagingSlotsBelongToTheirLane) {
  lanes_.to(1).copied = lanes_.to(2).copied = kNoLimit;
  Start({Sums({kFirstInput, kSecondInput}, StagedFor(1)), Sends(StagedFor(1), {0}, HostIndex(1)),
         Sums({kFirstInput}, StagedFor(3)), Sends(StagedFor(3), {2}, HostIndex(2))},
        4);
  Turn();
  FinishAllAndTurn();
  EXPECT_EQ(device_.submitted, 2 * kShape.slots) << "both lanes have their own slots";
  for (uint64_t round = 0; round < 4; ++round) {
    EXPECT_EQ(lanes_.to(2).Acknowledge(), Slice(round));
    Turn();
    FinishAllAndTurn();
    EXPECT_EQ(lanes_.to(2).next(), std::min<uint64_t>(4, round + 1 + kShape.slots));
    EXPECT_EQ(lanes_.to(1).next(), kShape.slots) << "the other lane's acknowledgements are not its";
  }
  for (uint64_t round = 0; round < 4; ++round) {
    EXPECT_EQ(lanes_.to(1).Acknowledge(), Sum(round));
    Turn();
    FinishAllAndTurn();
  }
  EXPECT_TRUE(runner_.done());
  EXPECT_EQ(lanes_.stagings, 2);
}

TEST_F(ChannelRunnerPeersTest, AllocatesStagingOnlyForComposedSlices) {
  Start({Sends(kFirstInput)}, 1);
  EXPECT_EQ(lanes_.stagings, 0);
}

TEST_F(ChannelRunnerPeersTest, FailsWithoutMemoryForLane) {
  lanes_.memory = absl::ResourceExhaustedError("no memory");
  for (const std::vector<Step>& steps : {AddsWhatComes(), SendsTheSum()}) {
    Start(steps, 3);
    EXPECT_TRUE(absl::IsResourceExhausted(start_status_)) << start_status_;
    EXPECT_TRUE(runner_.done());
    EXPECT_TRUE(runner_.quiescent());
  }
}

TEST_F(ChannelRunnerPeersTest, AProgramWithoutStepsIsDoneAtOnce) {
  Start({}, 3);
  EXPECT_TRUE(start_status_.ok());
  EXPECT_TRUE(runner_.done());
}

}  // namespace channel_runner_peers_test
}  // namespace mccs
