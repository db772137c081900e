// Lanes over RDMA: what they cost, what they share, and peers that break the protocol.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/mentions.h"
#include "tests/unit/transport/rdma/rdma_world.h"

namespace mccs {
namespace rdma_lane_test {

using namespace rdma_test;

class RdmaLaneTest : public RdmaWorld {};

TEST_F(RdmaLaneTest, ASliceCostsOneRequestAndOneCompletionAtEachEnd) {
  Start(2);
  Lane& lane = Open(0, 1);
  constexpr SliceNumber kSlices = 2'000;
  ASSERT_TRUE(RunUntil([&] {
    Carry(lane, kSlices);
    return lane.send->acknowledged() == kSlices;
  }));
  const VerbsNic::Counters sender = nic(0).counters(), receiver = nic(1).counters();
  const auto per_slice = [](uint64_t count) { return static_cast<double>(count) / kSlices; };
  // More only by a tag, and by the receiver's messages that return receives.
  EXPECT_LE(per_slice(sender.requests), 1.01);
  EXPECT_LE(per_slice(receiver.completions), 1.05);
  // Credit, and what returns receives.
  EXPECT_LE(per_slice(receiver.requests), 1);
  EXPECT_LE(per_slice(sender.completions), 1);
  EXPECT_LE(per_slice(receiver.refills), 1.0 / 8);
  EXPECT_LE(per_slice(sender.refills), 1.0 / 8);
}

TEST_F(RdmaLaneTest, LanesOfBothDirectionsShareAQueuePair) {
  Start(2);
  for (int i = 0; i < 3; ++i) {
    Open(0, 1);
    Open(1, 0);
  }
  ASSERT_TRUE(RunUntil(
      [&] { return std::ranges::all_of(lanes_, [&](const auto& lane) { return Ready(*lane); }); }));
  EXPECT_EQ(nic(0).queue_pairs(), 1u);
  EXPECT_EQ(nic(1).queue_pairs(), 1u);
  Open(0, 1, /*traffic_class=*/2);
  ASSERT_TRUE(RunUntil([&] { return Ready(*lanes_.back()); }));
  EXPECT_EQ(nic(0).queue_pairs(), 2u) << "another class has its own";
  lanes_.clear();
  EXPECT_EQ(nic(0).queue_pairs(), 0u);
  EXPECT_EQ(nic(1).queue_pairs(), 0u);
}

TEST_F(RdmaLaneTest, TenantsShareNeitherQueuePairsNorMemory) {
  Start(2);
  Open(0, 1);
  Lane& other = Open(0, 1, /*traffic_class=*/0, /*has_slots=*/false, "b");
  ASSERT_TRUE(RunUntil([&] { return Ready(*lanes_[0]) && Ready(other); }));
  EXPECT_EQ(nic(0).queue_pairs(), 2u);
  // The process's memory is registered for the first tenant only.
  const std::vector<std::byte> memory(1'000);
  const auto exposed = other.recv->Expose(ExposureName(1), SpanOf(memory));
  EXPECT_THAT(exposed.status().message(), Mentions("not registered", AddressOf(1)));
  const auto posted = other.send->Post(SpanOf(memory), {});
  EXPECT_THAT(posted.status().message(), Mentions("not registered", AddressOf(0)));
}

TEST_F(RdmaLaneTest, ManyPeersNeedOneQueuePairPerClass) {
  constexpr size_t kPeers = 128;
  constexpr uint8_t kClasses = 4;
  Start(kPeers + 1, {.receive_entries = 4096});
  for (size_t peer = 1; peer <= kPeers; ++peer) {
    for (uint8_t traffic_class = 0; traffic_class < kClasses; ++traffic_class) {
      Open(0, peer, traffic_class, /*has_slots=*/false);
      Open(peer, 0, traffic_class, /*has_slots=*/false);
    }
  }
  ASSERT_TRUE(RunUntil(
      [&] { return std::ranges::all_of(lanes_, [&](const auto& lane) { return Ready(*lane); }); }));
  EXPECT_EQ(nic(0).queue_pairs(), kPeers * kClasses);
}

TEST_F(RdmaLaneTest, TheReceiveQueueIsNeverEmpty) {
  Start(3, {.receive_entries = 40});
  for (int i = 0; i < 5; ++i) {
    for (size_t from = 0; from < 3; ++from) {
      for (size_t to = 0; to < 3; ++to) {
        if (from != to) Open(from, to);
      }
    }
  }
  constexpr SliceNumber kSlices = 100;
  ASSERT_TRUE(RunUntil([&] {
    for (const auto& lane : lanes_) Carry(*lane, kSlices);
    return std::ranges::all_of(
        lanes_, [&](const auto& lane) { return lane->send->acknowledged() == kSlices; });
  }));
  for (size_t h = 0; h < 3; ++h) EXPECT_EQ(nic(h).not_ready(), 0u);
}

TEST_F(RdmaLaneTest, ANicWithoutReceiveEntriesStallsTheLaneWithAReason) {
  Start(3, {.receive_entries = 4});
  Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(*lanes_[0]); }));
  Lane& second = Open(0, 2);
  ASSERT_TRUE(RunUntil([&] { return second.send->state() == LaneState::kStalled; }));
  EXPECT_THAT(second.send->status().message(),
              Mentions("fake0", "no free receive entries for tenant a"));
  EXPECT_TRUE(Ready(*lanes_[0]));
}

TEST_F(RdmaLaneTest, CompletionsWithoutARequestAreCountedAndDropped) {
  Start(2);
  Lane& lane = Open(0, 1);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane); }));
  Completion unknown;
  unknown.kind = Completion::Kind::kRequest;
  unknown.queue_pair = QueuePairNumber(77'777);
  nic(0).Inject(unknown);
  unknown.queue_pair = QueuePairNumber(1);  // of this NIC, but a request that was never posted
  unknown.id = 1'000'000;
  unknown.status = CompletionStatus::kRemoteError;
  nic(0).Inject(unknown);
  constexpr SliceNumber kSlices = 20;
  EXPECT_TRUE(RunUntil([&] {
    Carry(lane, kSlices);
    return lane.send->acknowledged() == kSlices;
  }));
  EXPECT_GE(host(0).pairs.unknown(), 1u);
  EXPECT_EQ(lane.send->counters().reconnects, 0u);
}

TEST_F(RdmaLaneTest, AFailedRequestStallsTheLaneWithTheVerbsText) {
  Start(2);
  for (const CompletionStatus status :
       {CompletionStatus::kRetriesExceeded, CompletionStatus::kRemoteError,
        CompletionStatus::kLocalProtection, CompletionStatus::kFatal}) {
    Lane& lane = Open(0, 1);
    ASSERT_TRUE(RunUntil([&] {
      Carry(lane, 1);
      return lane.send->acknowledged() == 1;
    }));
    fabric_->next_failure = status;
    ASSERT_TRUE(RunUntil([&] {
      Carry(lane, 2);
      return lane.send->state() == LaneState::kStalled;
    }));
    EXPECT_THAT(lane.send->status().message(), Mentions(AddressOf(1), Name(status)));
  }
}

TEST_F(RdmaLaneTest, APortThatGoesDownStallsItsLanesAtBothEnds) {
  Start(3);
  Lane& lane = Open(0, 1);
  Lane& other = Open(1, 2);
  ASSERT_TRUE(RunUntil([&] { return Ready(lane) && Ready(other); }));
  nic(0).TakePortDown();
  ASSERT_TRUE(RunUntil([&] {
    return lane.send->state() == LaneState::kStalled && lane.recv->state() == LaneState::kStalled;
  }));
  EXPECT_THAT(lane.send->status().message(), Mentions("fake0", "port error"));
  EXPECT_TRUE(Ready(other));
}

}  // namespace rdma_lane_test
}  // namespace mccs
