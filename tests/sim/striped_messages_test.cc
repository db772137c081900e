// Long messages use all channels of the strategy: production daemons, over a simulated clock and
// network whose streams each have a limited rate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <utility>

#include "tests/sim/scenario.h"

namespace mccs {
namespace striped_messages_test {

using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

constexpr uint64_t kElements = 250'000;
constexpr size_t kBytes = kElements * sizeof(float);
constexpr uint64_t kSlotBytes = 16u << 10;

// A message of `count` elements from rank 0 to rank 1.
void PostMessage(SimJob& job, uint64_t count) {
  job.Post(0, {.sends = true, .peer = 1, .at = 0, .count = count});
  job.Post(1, {.sends = false, .peer = 0, .at = 0, .count = count});
}

// Of the output of rank `to`, to which `from` has sent `count` elements.
uint64_t WrongElements(const SimJob& job, uint64_t count, int from = 0, int to = 1) {
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < count; ++i) wrong += job.output(to, i) != SimJob::InputValue(from, i);
  return wrong;
}

// The payload of rank 0's message lanes, by lane.
std::map<int, agent::v1::Lane> MessageLanes(SimWorld& world) {
  world.RunFor(kNsPerSec);  // for the reports
  std::map<int, agent::v1::Lane> lanes;
  for (const agent::v1::Lane& lane : world.host(0).controller().reports.begin()->second.lanes()) {
    const ChannelId channel(lane.channel());
    if (IsMessageChannel(channel)) lanes[MessageLaneOf(channel)] = lane;
  }
  return lanes;
}

TEST(SimStripedMessages, LongMessageUsesAllChannelsEqually) {
  for (const int channels : {1, 2, 4}) {
    auto [world, job] = JobWorld({.channels = channels}, {0, 1}, kBytes);
    job.Fill(kElements);
    PostMessage(job, kElements);
    ASSERT_TRUE(job.Complete());
    EXPECT_EQ(WrongElements(job, kElements), 0u);
    const std::map<int, agent::v1::Lane> lanes = MessageLanes(world);
    ASSERT_THAT(lanes, SizeIs(channels));
    uint64_t bytes = 0;
    for (const auto& [lane, stats] : lanes) {
      const auto expected = static_cast<double>(kBytes) / channels;
      EXPECT_NEAR(static_cast<double>(stats.payload_bytes()), expected, kSlotBytes) << lane;
      bytes += stats.payload_bytes();
    }
    EXPECT_EQ(bytes, kBytes);
  }
}

TEST(SimStripedMessages, ShortMessagesUseOneLane) {
  auto [world, job] = JobWorld({.channels = 4}, {0, 1}, kBytes);
  job.Fill(kElements);
  for (int i = 0; i < 20; ++i) PostMessage(job, 2);
  PostMessage(job, kSlotBytes / sizeof(float));
  ASSERT_TRUE(job.Complete());
  EXPECT_THAT(MessageLanes(world), SizeIs(1));
}

TEST(SimStripedMessages, PairsOfRanksSpreadOverLanes) {
  auto [world, job] = JobWorld({.channels = 4}, {0, 0, 0, 0, 1, 1, 1, 1}, kBytes);
  job.Fill(kElements);
  for (int r = 0; r < 4; ++r) {
    job.Post(r, {.sends = true, .peer = 4 + r, .at = 0, .count = 2});
    job.Post(4 + r, {.sends = false, .peer = r, .at = 0, .count = 2});
  }
  ASSERT_TRUE(job.Complete());
  EXPECT_THAT(MessageLanes(world), SizeIs(4));
}

// Each stream of the simulated network has the same limited rate.
TEST(SimStripedMessages, FourChannelsHaveTheBandwidthOfFour) {
  std::map<int, double> ns;  // by number of channels
  for (const int channels : {1, 4}) {
    auto [world, job] = JobWorld({.channels = channels}, {0, 1}, kBytes);
    job.Fill(kElements);
    PostMessage(job, kElements);  // opens the lanes
    ASSERT_TRUE(job.Complete());
    const MonotonicNs begin = world.clock().Now();
    PostMessage(job, kElements);
    ASSERT_TRUE(job.Complete());
    ns[channels] = static_cast<double>(world.clock().Now() - begin);
  }
  EXPECT_GT(ns[1] / ns[4], 3);
  EXPECT_LT(ns[1] / ns[4], 5);
}

TEST(SimStripedMessages, ReopenBrokenLanesWithoutLoss) {
  for (auto [seed, random] : Seeds(30)) {
    auto [world, job] = JobWorld({.seed = seed, .channels = 3}, {0, 1}, kBytes);
    job.Fill(kElements);
    PostMessage(job, kElements);
    world.RunFor(RandomUs(random, 3000));
    for (const auto& lane : world.host(0).controller().reports.begin()->second.lanes()) {
      world.CutLane(lane.local());
    }
    ASSERT_TRUE(job.Complete());
    EXPECT_EQ(WrongElements(job, kElements), 0u);
  }
}

// Strategies with other numbers of channels and slots, while messages are in flight.
TEST(SimStripedMessages, StrategiesChangeWhileMessagesAreInFlight) {
  for (auto [seed, random] : Seeds(30)) {
    RunningJob run(seed, {0, 0, 1, 1}, kBytes);
    run.job.Fill(kElements);
    uint64_t epoch = 1;
    uint64_t most = 0;
    for (int round = 0; round < 6; ++round) {
      const uint64_t count = 1 + random() % kElements;
      most = std::max(most, count);
      for (const int r : {0, 1}) {
        run.job.Post(r, {.sends = true, .peer = 2 + r, .at = 0, .count = count});
        run.job.Post(2 + r, {.sends = false, .peer = r, .at = 0, .count = count});
      }
      run.changes.Propose(run.changes.Random(++epoch, random));
      run.world.RunFor(RandomUs(random, 4000));
    }
    ASSERT_TRUE(run.world.RunUntil([&] { return run.job.Done() && run.changes.AllAt(epoch); }))
        << run.job.rank(0).failure();
    EXPECT_EQ(WrongElements(run.job, most, 0, 2), 0u);
    EXPECT_EQ(WrongElements(run.job, most, 1, 3), 0u);
  }
}

class SimStripedRoutes : public testing::Test {
 protected:
  SimStripedRoutes() { EXPECT_TRUE(job_.Form()); }

  // `channels` channels, on the two NICs of each host in turn.
  static Strategy OnNics(uint64_t epoch, int channels) {
    Strategy strategy = MakeRingStrategy(Epoch(epoch), {HostIndex(0), HostIndex(1)}, channels);
    for (int c = 0; c < channels; ++c) {
      for (int h = 0; h < 2; ++h) {
        strategy.channels[static_cast<size_t>(c)].addresses.push_back(SimAddress(h, c % 2));
      }
    }
    return strategy;
  }
  void RunMessage() {
    job_.Fill(kElements);
    PostMessage(job_, kElements);
    ASSERT_TRUE(job_.Complete());
    EXPECT_EQ(WrongElements(job_, kElements), 0u);
  }
  void ExpectOnNic(const agent::v1::Lane& lane, int nic) {
    EXPECT_THAT(lane.local(), StartsWith(SimAddress(0, nic) + ":"));
    EXPECT_EQ(lane.remote(), SimAddress(1, nic) + ":7400");
    EXPECT_EQ(lane.state(), "up");
  }

  SimWorld world_{{.hosts = 2, .nics = 2}};
  SimJob job_{world_, {0, 1}, kBytes};
  ProposedChanges changes_{world_, 2};
};

TEST_F(SimStripedRoutes, MessageLanesUseTheNicsOfTheChannels) {
  RunMessage();
  ASSERT_THAT(MessageLanes(world_), SizeIs(1));
  ASSERT_TRUE(changes_.Apply(OnNics(2, 2)));
  RunMessage();
  std::map<int, agent::v1::Lane> lanes = MessageLanes(world_);
  ASSERT_THAT(lanes, SizeIs(2));
  for (auto& [lane, stats] : lanes) {
    ExpectOnNic(stats, lane);
    EXPECT_GT(stats.payload_bytes(), kBytes / 3);
  }
  // Routes alone: the lanes move, without a new epoch of lanes.
  Strategy swapped = OnNics(3, 2);
  std::swap(swapped.channels[0].addresses, swapped.channels[1].addresses);
  ASSERT_TRUE(changes_.Apply(swapped));
  RunMessage();
  lanes = MessageLanes(world_);
  for (auto& [lane, stats] : lanes) ExpectOnNic(stats, 1 - lane);
  // One channel: the second lane has no work.
  const uint64_t before = lanes[1].payload_bytes();
  ASSERT_TRUE(changes_.Apply(OnNics(4, 1)));
  RunMessage();
  lanes = MessageLanes(world_);
  EXPECT_EQ(lanes[1].payload_bytes(), before);
}

// Both lanes have the rate of their channel.
TEST_F(SimStripedRoutes, MessageLanesHaveTheRatesOfTheChannels) {
  constexpr uint64_t kRateBps = 4'000'000;
  ASSERT_TRUE(changes_.Apply(OnNics(2, 2)));
  RateLimits limits{.revision = 1};
  for (const int c : {0, 1}) {
    limits.lanes.push_back({ChannelId(c), HostIndex(0), HostIndex(1), kRateBps});
  }
  world_.host(0).controller().rate_updates.push_back({changes_.id(), limits});
  world_.RunFor(kNsPerSec);
  const MonotonicNs begin = world_.clock().Now();
  RunMessage();
  const double seconds = static_cast<double>(world_.clock().Now() - begin) / kNsPerSec;
  EXPECT_NEAR(seconds, 8.0 * kBytes / (2 * kRateBps), 0.1);
}

TEST_F(SimStripedRoutes, NamesBothEndsOfDifferentLength) {
  ASSERT_TRUE(changes_.Apply(OnNics(2, 2)));
  job_.Post(0, {.sends = true, .peer = 1, .at = 0, .count = kElements});
  job_.Post(1, {.sends = false, .peer = 0, .at = 0, .count = kElements - 1});
  ASSERT_TRUE(job_.RunUntilFailed({0, 1}));
  for (int r = 0; r < 2; ++r) {
    EXPECT_THAT(job_.rank(r).failure(), HasSubstr("send #1 of rank 0 to rank 1 count 250000"));
    EXPECT_THAT(job_.rank(r).failure(), HasSubstr("recv #1 of rank 1 from rank 0 count 249999"));
  }
}

}  // namespace striped_messages_test
}  // namespace mccs
