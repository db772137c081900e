// The limit of message lanes and of their memory, which every host derives from the first strategy.
#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <vector>

#include "service/communicator/lanes/lane_set.h"
#include "tests/unit/communicator/fake_connection.h"
#include "tests/unit/communicator/lane_set_hosts.h"
#include "tests/unit/device/process_memory.h"

namespace mccs {
namespace message_lane_limit_test {

constexpr LaneShape kDefault{.slots = 12, .slot_bytes = 96u << 10};
constexpr LaneShape kLargest{.slots = kMaxLaneSlots, .slot_bytes = kMaxSlotBytes};

// Of this process; 0 under a sanitizer, whose allocator does not report it.
size_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(MessageLanes, SmallCommunicatorsMayUseAllChannels) {
  for (const int hosts : {1, 2, 8, 64}) EXPECT_EQ(MessageLanes(kDefault, hosts), kMaxChannels);
}

TEST(MessageLanes, AreLimitedByTheirMemory) {
  for (const LaneShape& shape : {kDefault, kLargest}) {
    int before = kMaxChannels;
    for (int hosts = 2; hosts < 10'000; ++hosts) {
      const int lanes = MessageLanes(shape, hosts);
      ASSERT_GE(lanes, 1);
      ASSERT_LE(lanes, before) << hosts;
      const auto all = static_cast<uint64_t>(lanes) * static_cast<uint64_t>(hosts - 1);
      const uint64_t bytes = all * MessageLaneBytes(shape);
      ASSERT_TRUE(lanes == 1 || bytes <= kMaxMessageLaneBytes) << hosts;
      before = lanes;
    }
  }
}

TEST(MessageLanes, HaveNoMoreMemoryThanTheirLimitCounts) {
  constexpr int kLanes = 100;
  const std::vector<std::byte> slice(kShortSliceBytes);
  const RegionSpan piece = SpanAt(slice.data(), slice.size());
  for (const LaneShape& shape : {kDefault, kLargest}) {
    StreamTransport transport;
    std::vector<std::unique_ptr<SendLane>> sends;
    std::vector<std::unique_ptr<RecvLane>> receives;
    const size_t before = AllocatedBytes();
    for (int i = 0; i < kLanes; ++i) {
      sends.push_back(transport.MakeSendLane({}, shape));
      receives.push_back(transport.MakeRecvLane({}, shape, {}));
    }
    EXPECT_LE(AllocatedBytes() - before, kLanes * (MessageLaneBytes(shape) / 4)) << "unused";
    for (const auto& lane : sends) {
      while (lane->has_room()) ASSERT_TRUE(lane->Post(piece, SliceTag{}).ok());
    }
    EXPECT_LE(AllocatedBytes() - before, kLanes * MessageLaneBytes(shape));
  }
}

// A peer opens as many as it can, before this host has sent or received anything.
TEST(MessageLanes, PeerCannotOpenMore) {
  SimClock clock;
  SimNetwork network(clock, 1);
  SeededRandom random(1);
  StreamTransport transport;
  LimitedMemory device;
  LaneSetOptions options;
  options.access = {&network.HostNetwork(AddressOf(0)), &random, &clock};
  options.transport = &transport;
  options.device = &device;
  options.id = CommId(0x2a);
  options.self = HostIndex(0);
  options.collectives = false;
  constexpr int kHosts = 1000;
  options.hosts.resize(kHosts);
  options.strategy.lanes = kDefault;
  options.strategy.channels.resize(1);
  for (int h = 0; h < kHosts; ++h) options.strategy.channels[0].ring.push_back(HostIndex(h));
  const auto lanes = std::move(*LaneSet::Make(options));
  const int most = MessageLanes(kDefault, kHosts);
  EXPECT_LT(most, kMaxChannels);
  for (int peer = 1; peer < kHosts; ++peer) {
    for (int lane = 0; lane < kMaxChannels; ++lane) {
      auto wire = std::make_shared<FakeWire>();
      lanes->Accept({.purpose = ConnectionPurpose::kLane,
                     .comm_id = options.id,
                     .epoch = options.strategy.epoch,
                     .channel = MessageChannel(lane),
                     .from_host = HostIndex(peer),
                     .to_host = HostIndex(0)},
                    std::make_unique<FakeConnection>(wire));
      EXPECT_EQ(wire.use_count() > 1, lane < most) << "the connection is kept";
    }
  }
  EXPECT_EQ(lanes->incoming().size(), static_cast<size_t>(most) * (kHosts - 1));
}

class MessageLaneTurnsTest : public LaneSetHosts {
 protected:
  MessageLaneTurnsTest() : LaneSetHosts(2) {}
};

TEST_F(MessageLaneTurnsTest, IdleLanesGetNoTurns) {
  OpenAll();
  Run([] { return false; });
  const size_t rings = lanes(1).ready_lanes();
  const std::byte byte{1};
  const RegionSpan piece = SpanAt(&byte, 1);
  for (int lane = 0; lane < kMaxChannels; ++lane) {
    SendLane& send = *lanes(0).SendTo(MessageChannel(lane), HostIndex(1));
    ASSERT_TRUE(send.Post(piece, SliceTag{}).ok());
  }
  RecvLane& first = **lanes(1).ReceiveFrom(MessageChannel(0), HostIndex(0));
  std::byte there{};
  const RegionSpan memory = SpanAt(&there, 1);
  ASSERT_TRUE(first.Expect(0, memory, SliceTag{}));
  Run([] { return false; });
  EXPECT_EQ(lanes(1).incoming().size(), size_t{kChannels + kMaxChannels});
  for (int h : {0, 1}) EXPECT_EQ(lanes(h).ready_lanes(), rings);
  EXPECT_EQ(first.Landed(0), Landing::kDirect);
  // One slice wakes one lane on each side, and its credit one.
  first.Release(0);
  first.RequestPoll();
  EXPECT_EQ(lanes(1).ready_lanes(), rings + 1);
  SendLane& send = *lanes(0).SendTo(MessageChannel(0), HostIndex(1));
  ASSERT_TRUE(send.Post(piece, SliceTag{}).ok());
  send.RequestPoll();
  EXPECT_EQ(lanes(0).ready_lanes(), rings + 1);
  ASSERT_TRUE(first.Expect(1, memory, SliceTag{}));
  EXPECT_TRUE(Run([&] { return first.Landed(1) == Landing::kDirect; }));
}

}  // namespace message_lane_limit_test
}  // namespace mccs
