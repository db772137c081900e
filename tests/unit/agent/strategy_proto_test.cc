#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/strategy.pb.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {
namespace strategy_proto_test {

using testing::HasSubstr;

Strategy TwoChannels() {
  Strategy value;
  value.epoch = Epoch(7);
  value.channels = {{{HostIndex(0), HostIndex(2), HostIndex(1)}, {49152, 0, 65535}},
                    {{HostIndex(2), HostIndex(1), HostIndex(0)}, {}}};
  value.channels[1].addresses = {"10.0.0.1", "10.0.0.2", "10.0.0.3"};
  value.channels[1].other_lanes = {{HostIndex(1), HostIndex(2), 61000},
                                   {HostIndex(0), HostIndex(1), 61001}};
  value.channels[0].homes = {LocalIndex(3), LocalIndex(0), LocalIndex(7)};
  value.lanes = {.slots = 8, .slot_bytes = 1 << 20};
  value.skew = 3;
  value.algorithms.costs = {.operation_us = 1,
                            .hop_us = 2,
                            .slice_us = 3,
                            .lane_bytes_per_us = 4,
                            .host_bytes_per_us = 5,
                            .local_bytes_per_us = 6};
  value.algorithms.configured_costs = {.hop_us = 7};
  value.algorithms.rules = {{OpKind::kReduce, Algorithm::kTree, 7, 8},
                            {OpKind::kAllGather, Algorithm::kPat},
                            {OpKind::kAllToAll, Algorithm::kGrid}};
  value.origin = "locality_ring";
  return value;
}

TEST(StrategyProto, RoundTripsAStrategy) {
  const Strategy sent = TwoChannels();
  strategy::Strategy message;
  ToProto(sent, &message);
  const absl::StatusOr<Strategy> got = StrategyFromProto(message, 3);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->epoch, sent.epoch);
  ASSERT_EQ(got->channels.size(), 2u);
  for (size_t c = 0; c < 2; ++c) EXPECT_EQ(got->channels[c], sent.channels[c]);
  EXPECT_EQ(got->lanes.slots, 8u);
  EXPECT_EQ(got->lanes.slot_bytes, 1u << 20);
  EXPECT_EQ(got->skew, 3u);
  EXPECT_EQ(got->algorithms, sent.algorithms);
  EXPECT_EQ(got->origin, "locality_ring");
}

TEST(StrategyProto, AReusedMessageHasNoOldFields) {
  strategy::Strategy message;
  ToProto(TwoChannels(), &message);
  ToProto(TwoChannels(), &message);
  EXPECT_EQ(message.channels_size(), 2);
}

TEST(StrategyProto, RejectsStrategiesOfOtherCommunicators) {
  strategy::Strategy message;
  ToProto(TwoChannels(), &message);
  EXPECT_EQ(StrategyFromProto(message, 2).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StrategyFromProto(message, 4).status().code(), absl::StatusCode::kInvalidArgument);
  message.mutable_channels(0)->set_ring(1, -1);
  EXPECT_EQ(StrategyFromProto(message, 3).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StrategyFromProto(strategy::Strategy(), 3).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(StrategyProto, RejectsInvalidPorts) {
  strategy::Strategy message;
  ToProto(TwoChannels(), &message);
  message.mutable_channels(0)->set_source_ports(0, 65536 + 80);
  EXPECT_THAT(StrategyFromProto(message, 3).status().message(), HasSubstr("65616"));
  ToProto(TwoChannels(), &message);
  message.mutable_channels(1)->mutable_other_lanes(1)->set_source_port(65536 + 81);
  EXPECT_THAT(StrategyFromProto(message, 3).status().message(), HasSubstr("65617"));
}

TEST(StrategyProto, UsesDefaultCosts) {
  strategy::Strategy message;
  ToProto(TwoChannels(), &message);
  message.clear_algorithms();
  EXPECT_EQ(StrategyFromProto(message, 3)->algorithms, ChoiceParameters());
}

TEST(StrategyProto, RejectsUnknownKindsAndAlgorithmsInRules) {
  strategy::Strategy message;
  ToProto(TwoChannels(), &message);
  message.mutable_algorithms()->mutable_rules(0)->set_kind(256 + 5);
  EXPECT_THAT(StrategyFromProto(message, 3).status().message(), HasSubstr("261"));
  ToProto(TwoChannels(), &message);
  message.mutable_algorithms()->mutable_rules(0)->set_algorithm(
      static_cast<strategy::Algorithm>(3));
  EXPECT_FALSE(StrategyFromProto(message, 3).ok());
}

TEST(StrategyProto, RejectsTooManyChannels) {
  strategy::Strategy message;
  ToProto(TwoChannels(), &message);
  while (message.channels_size() <= kMaxChannels) *message.add_channels() = message.channels(1);
  EXPECT_EQ(StrategyFromProto(message, 3).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace strategy_proto_test
}  // namespace mccs
