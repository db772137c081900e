#include "service/communicator/strategy/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace mccs {
namespace strategy_test {

using testing::HasSubstr;

Strategy Ring(const std::vector<int>& hosts) {
  Strategy strategy;
  strategy.lanes = {.slots = 4, .slot_bytes = 64u << 10};
  ChannelStrategy& channel = strategy.channels.emplace_back();
  for (int host : hosts) channel.ring.push_back(HostIndex(host));
  return strategy;
}

std::string Rejection(const Strategy& strategy, int hosts = 3) {
  const absl::Status status = ValidateStrategy(strategy, hosts);
  return status.ok() ? "accepted" : std::string(status.message());
}

TEST(ValidateStrategy, AcceptsAnyPermutation) {
  EXPECT_EQ(Rejection(Ring({2, 0, 1})), "accepted");
  EXPECT_EQ(Rejection(Ring({0}), 1), "accepted");
}

TEST(ValidateStrategy, RejectsInvalidRings) {
  EXPECT_THAT(Rejection(Ring({0, 1})), HasSubstr("names 2 of 3 hosts"));
  EXPECT_THAT(Rejection(Ring({0, 1, 1})), HasSubstr("not a permutation"));
  EXPECT_THAT(Rejection(Ring({0, 1, 3})), HasSubstr("not a permutation"));
  EXPECT_THAT(Rejection(Ring({0, 1, -1})), HasSubstr("not a permutation"));
  EXPECT_THAT(Rejection(Ring({0, 1, 2, 0})), HasSubstr("not a permutation"));
  EXPECT_THAT(Rejection(Ring({})), HasSubstr("names 0"));
}

TEST(ValidateStrategy, RejectsNoAndTooManyChannels) {
  Strategy strategy = Ring({0, 1, 2});
  const ChannelStrategy channel = strategy.channels.front();
  strategy.channels.clear();
  EXPECT_THAT(Rejection(strategy), HasSubstr("0 channels"));
  strategy.channels.assign(kMaxChannels + 1, channel);
  EXPECT_THAT(Rejection(strategy), HasSubstr("33 channels"));
}

TEST(ValidateStrategy, RejectsMismatchedSourcePorts) {
  Strategy strategy = Ring({0, 1, 2});
  strategy.channels.front().source_ports = {1, 2};
  EXPECT_THAT(Rejection(strategy), HasSubstr("2 source ports for 3 lanes"));
}

TEST(ValidateStrategy, RejectsInvalidAddresses) {
  Strategy strategy = Ring({0, 1, 2});
  std::vector<std::string>& addresses = strategy.channels.front().addresses;
  addresses = {"10.0.0.1", "10.0.0.2"};
  EXPECT_THAT(Rejection(strategy), HasSubstr("channel 0 has 2 addresses for 3 hosts"));
  for (const char* none :
       {"", "h1", "0.0.0.0", "10.0.0", "10.0.0.256", "10.0.0.1:7400", "fe80::1%eth0"}) {
    addresses = {"10.0.0.1", "10.0.0.2", none};
    EXPECT_THAT(Rejection(strategy), HasSubstr("not a numeric address")) << none;
  }
  addresses = {"10.0.0.1", "10.0.0.2", "fd00::3"};
  EXPECT_THAT(Rejection(strategy), HasSubstr("IPv4 and IPv6"));
  addresses = {"fd00::1", "fd00::2", "fd00::3"};
  EXPECT_EQ(Rejection(strategy), "accepted");
}

TEST(ValidateStrategy, RejectsInvalidOtherLanes) {
  Strategy strategy = Ring({0, 2, 1});
  std::vector<LanePort>& lanes = strategy.channels.front().other_lanes;
  lanes = {{HostIndex(0), HostIndex(1), 61000}, {HostIndex(2), HostIndex(0), 61001}};
  EXPECT_EQ(Rejection(strategy), "accepted");
  for (const LanePort& none : {LanePort{HostIndex(0), HostIndex(3)},
                               {HostIndex(-1), HostIndex(2)},
                               {HostIndex(1), HostIndex(1)}}) {
    lanes = {none};
    EXPECT_THAT(Rejection(strategy), HasSubstr("is not between two of 3 hosts"));
  }
  lanes = {{HostIndex(1), HostIndex(0), 61000}};
  EXPECT_THAT(Rejection(strategy), HasSubstr("lane from 1 to 0 in `other_lanes` is a ring lane"));
  lanes = {{HostIndex(0), HostIndex(1), 61000}, {HostIndex(0), HostIndex(1), 61001}};
  EXPECT_THAT(Rejection(strategy), HasSubstr("twice"));
}

TEST(ValidateStrategy, RejectsInvalidHomes) {
  Strategy strategy = Ring({2, 0, 1});
  std::vector<LocalIndex>& homes = strategy.channels.front().homes;
  homes = {LocalIndex(0), LocalIndex(1)};
  EXPECT_THAT(Rejection(strategy), HasSubstr("channel 0 has 2 home ranks for 3 hosts"));
  for (const int none : {-1, kMaxLocalRanks}) {
    homes = {LocalIndex(0), LocalIndex(none), LocalIndex(0)};
    EXPECT_THAT(Rejection(strategy), HasSubstr("channel 0: home rank"));
  }
  homes = {LocalIndex(0), LocalIndex(1), LocalIndex(kMaxLocalRanks - 1)};
  EXPECT_EQ(Rejection(strategy), "accepted");
}

TEST(CheckHomes, EachIsARankOfItsHost) {
  Strategy strategy = Ring({2, 0, 1});
  const Layout layout{.hosts = {{Rank(0), Rank(1)}, {Rank(2)}, {Rank(3), Rank(4), Rank(5)}}};
  std::vector<LocalIndex>& homes = strategy.channels.front().homes;
  EXPECT_TRUE(CheckHomes(strategy, layout).ok()) << "none";
  homes = {LocalIndex(2), LocalIndex(1), LocalIndex(0)};
  EXPECT_TRUE(CheckHomes(strategy, layout).ok());
  homes = {LocalIndex(2), LocalIndex(2), LocalIndex(0)};
  const absl::Status status = CheckHomes(strategy, layout);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("home rank 2 on host 0: expected 0 to 1"));
}

TEST(OrdersOf, HomesAreByHost) {
  Strategy strategy = Ring({2, 0, 1});
  EXPECT_TRUE(OrdersOf(strategy).homes[0].empty());
  strategy.channels.front().homes = {LocalIndex(7), LocalIndex(8), LocalIndex(9)};
  EXPECT_EQ(OrdersOf(strategy).homes[0],
            (std::vector<LocalIndex>{LocalIndex(8), LocalIndex(9), LocalIndex(7)}));
}

TEST(CompareStrategies, HomesLeaveTheLanes) {
  const Strategy one = Ring({0, 1, 2});
  Strategy other = one;
  other.channels.front().homes = {LocalIndex(0), LocalIndex(1), LocalIndex(0)};
  EXPECT_EQ(Compare(one, other), StrategyDifference::kAlgorithms);
  other.channels.front().source_ports = {1, 2, 3};
  EXPECT_EQ(Compare(one, other), StrategyDifference::kLanes);
}

TEST(RouteOf, EachLaneHasItsPortAndEachHostItsAddress) {
  ChannelStrategy channel = Ring({2, 0, 1}).channels.front();
  EXPECT_EQ(RouteOf(channel, HostIndex(2), HostIndex(0)), LaneRoute{});
  channel.source_ports = {61002, 61000, 61001};
  channel.addresses = {"10.0.0.3", "10.0.0.1", "10.0.0.2"};
  channel.other_lanes = {{HostIndex(0), HostIndex(2), 62000}};
  EXPECT_EQ(
      RouteOf(channel, HostIndex(2), HostIndex(0)),
      (LaneRoute{.source_host = "10.0.0.3", .target_host = "10.0.0.1", .source_port = 61002}));
  EXPECT_EQ(
      RouteOf(channel, HostIndex(1), HostIndex(2)),
      (LaneRoute{.source_host = "10.0.0.2", .target_host = "10.0.0.3", .source_port = 61001}));
  EXPECT_EQ(
      RouteOf(channel, HostIndex(0), HostIndex(2)),
      (LaneRoute{.source_host = "10.0.0.1", .target_host = "10.0.0.3", .source_port = 62000}));
  EXPECT_EQ(RouteOf(channel, HostIndex(1), HostIndex(0)),
            (LaneRoute{.source_host = "10.0.0.2", .target_host = "10.0.0.1", .source_port = 0}));
}

TEST(CompareStrategies, RoutesLeaveTheLanes) {
  const Strategy one = Ring({0, 1, 2});
  Strategy other = one;
  other.epoch = Epoch(9);
  other.origin = "another";
  other.channels.front().source_ports = {1, 2, 3};
  other.channels.front().addresses = {"10.0.0.1", "10.0.0.2", "10.0.0.3"};
  other.channels.front().other_lanes = {{HostIndex(1), HostIndex(0), 4}};
  EXPECT_EQ(Compare(one, other), StrategyDifference::kRoutes);
  EXPECT_EQ(Compare(other, one), StrategyDifference::kRoutes);
  other.channels.front().ring = Ring({0, 2, 1}).channels.front().ring;
  EXPECT_EQ(Compare(one, other), StrategyDifference::kLanes);
}

TEST(ValidateStrategy, RejectsShapesOutOfRange) {
  for (uint32_t slots : {0u, 1u, kMaxLaneSlots + 1, std::numeric_limits<uint32_t>::max()}) {
    Strategy strategy = Ring({0, 1, 2});
    strategy.lanes.slots = slots;
    EXPECT_THAT(Rejection(strategy), HasSubstr("slots per lane"));
  }
  for (uint32_t bytes : {0u, kMinSlotBytes - 1, kMaxSlotBytes + 1}) {
    Strategy strategy = Ring({0, 1, 2});
    strategy.lanes.slot_bytes = bytes;
    EXPECT_THAT(Rejection(strategy), HasSubstr("slots of"));
  }
  Strategy strategy = Ring({0, 1, 2});
  strategy.skew = strategy.lanes.slots;
  EXPECT_THAT(Rejection(strategy), HasSubstr("skew 4: expected less than the 4 slots"));
}

TEST(ValidateStrategy, RejectsInvalidCostsAndRules) {
  Strategy strategy = Ring({0, 1, 2});
  strategy.algorithms.costs.lane_bytes_per_us = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(Rejection(strategy), HasSubstr("algorithms: costs.lane_bytes_per_us is nan"));
  strategy = Ring({0, 1, 2});
  strategy.algorithms.costs.hop_us = -1;
  EXPECT_THAT(Rejection(strategy), HasSubstr("hop_us is -1"));
  strategy = Ring({0, 1, 2});
  strategy.algorithms.configured_costs = {.local_bytes_per_us = 0};
  EXPECT_THAT(Rejection(strategy), HasSubstr("local_bytes_per_us is 0"));
  strategy = Ring({0, 1, 2});
  strategy.algorithms.rules = {{.kind = OpKind::kAllGather, .algorithm = Algorithm::kTree}};
  EXPECT_THAT(Rejection(strategy),
              HasSubstr("rule 0: algorithm 'tree' does not support 'all_gather'"));
  strategy.algorithms.rules.assign(kMaxAlgorithmRules + 1, {.kind = OpKind::kAllReduce});
  EXPECT_THAT(Rejection(strategy), HasSubstr("65 rules"));
}

TEST(CompareStrategies, AlgorithmsRequireTheSameLanes) {
  const Strategy one = Ring({0, 1, 2});
  Strategy other = one;
  other.epoch = Epoch(9);
  other.origin = "somebody else";
  other.algorithms.costs.hop_us = 99;
  other.algorithms.rules = {{OpKind::kAllReduce, Algorithm::kTree}};
  EXPECT_EQ(Compare(one, other), StrategyDifference::kAlgorithms);
  EXPECT_EQ(Compare(other, one), StrategyDifference::kAlgorithms);
  other.channels[0].source_ports = {1, 2, 3};
  EXPECT_EQ(Compare(one, other), StrategyDifference::kLanes);
  other = one;
  other.skew += 1;
  EXPECT_EQ(Compare(one, other), StrategyDifference::kLanes);
}

TEST(MaxPeers, IsLimitedByLaneMemory) {
  Strategy strategy = Ring({0, 1, 2});
  strategy.lanes = {.slots = 8, .slot_bytes = 1u << 20};
  EXPECT_EQ(MaxPeers(strategy), 64);
  strategy.channels.assign(kMaxChannels, strategy.channels.front());
  EXPECT_EQ(MaxPeers(strategy), 2);
}

// A leader run by a tenant could otherwise request 64 GiB from every daemon.
TEST(ValidateStrategy, RejectsTooMuchLaneMemory) {
  Strategy strategy = Ring({0, 1, 2});
  strategy.channels.assign(kMaxChannels, strategy.channels.front());
  strategy.lanes = {.slots = kMaxLaneSlots, .slot_bytes = kMaxSlotBytes};
  EXPECT_THAT(Rejection(strategy), HasSubstr("of memory"));
  strategy.lanes = {.slots = 8, .slot_bytes = 1u << 20};
  EXPECT_EQ(Rejection(strategy), "accepted");
}

}  // namespace strategy_test
}  // namespace mccs
