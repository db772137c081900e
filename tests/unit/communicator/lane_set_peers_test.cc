// Lanes outside the rings: between any two hosts, opened on first use. With four hosts in one ring,
// hosts 0 and 2 are not neighbours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/communicator/lanes/lane_set.h"
#include "tests/unit/communicator/fake_connection.h"
#include "tests/unit/communicator/lane_set_hosts.h"
#include "tests/unit/device/process_memory.h"

namespace mccs {
namespace lane_set_peers_test {

using testing::HasSubstr;

constexpr int kHosts = 4;
constexpr size_t kRingStreams = size_t{kHosts} * kChannels;
constexpr ChannelId kFirst(0);
constexpr ChannelId kMessages = MessageChannel(0);

class LaneSetPeersTest : public LaneSetHosts {
 protected:
  LaneSetPeersTest() : LaneSetHosts(kHosts) {}

  static bool Post(SendLane& lane, uint8_t value) {
    const std::byte byte{value};
    const RegionSpan piece = SpanAt(&byte, 1);
    const auto posted = lane.Post(piece, SliceTag{});
    return posted.ok() && posted->has_value();
  }
  // Waits for slice `n` and releases its slot; nothing if it does not arrive.
  std::optional<uint8_t> Take(RecvLane& lane, SliceNumber n) {
    if (!Run([&] { return lane.Landed(n) != Landing::kNotYet; })) return std::nullopt;
    const auto value =
        std::to_integer<uint8_t>(lane.slots().address()[n % kShape.slots * kShape.slot_bytes]);
    lane.Release(n);
    return value;
  }
  RecvLane& From(int at, ChannelId channel, int peer) {
    auto lane = lanes(at).ReceiveFrom(channel, HostIndex(peer));
    EXPECT_TRUE(lane.ok()) << lane.status();
    return **lane;
  }
};

// ---- Success ------------------------------------------------------------------------------------

TEST_F(LaneSetPeersTest, AllocatesNothingForUnusedLanes) {
  OpenAll();
  EXPECT_EQ(network_.open_streams(), kRingStreams);
  for (int h = 0; h < kHosts; ++h) EXPECT_EQ(lanes(h).Stats().size(), size_t{kChannels});
  const int before = device_.taken;
  lanes(0).SendTo(kFirst, HostIndex(2));
  EXPECT_EQ(device_.taken, before) << "a sender has no slots";
  Run([] { return false; });
  EXPECT_EQ(network_.open_streams(), kRingStreams + 1);
  EXPECT_EQ(device_.taken, before + 1) << "the receiver's slots";
}

TEST_F(LaneSetPeersTest, ReleasesMemoryOfEmptyLanes) {
  OpenAll();
  size_t next = 0;
  EXPECT_EQ(lanes(1).ReleaseLaneMemory(&next), LaneSet::MemoryRelease::kAll);
  EXPECT_EQ(device_.discarded, kChannels * kShape.receive_bytes()) << "the slots of its rings";
  const auto staging = lanes(0).StagingTo(kFirst, HostIndex(1));
  ASSERT_TRUE(staging.ok());
  const RegionSpan piece = staging->Part(0, kShape.slot_bytes);
  std::fill_n(staging->address(), piece.bytes, std::byte{7});
  SendLane& lane = *lanes(0).SendTo(kFirst, HostIndex(1));
  ASSERT_TRUE(lane.Post(piece, SliceTag{}).ok());
  device_.discarded = 0;
  next = 0;
  EXPECT_EQ(lanes(0).ReleaseLaneMemory(&next), LaneSet::MemoryRelease::kNone)
      << "a slice is in flight";
  EXPECT_EQ(device_.discarded, 0u);
  RecvLane& end = From(1, kFirst, 0);
  ASSERT_TRUE(Run([&] { return lane.source_free() == 1; }));
  device_.discarded = 0;
  for (int h : {0, 1}) {
    next = 0;
    EXPECT_EQ(lanes(h).ReleaseLaneMemory(&next), LaneSet::MemoryRelease::kAll);
  }
  EXPECT_EQ(device_.discarded,
            2 * kChannels * kShape.receive_bytes() + kShape.staging_bytes() - kShape.slot_bytes)
      << "all except the slot with the slice";
  EXPECT_EQ(Take(end, 0), 7);
}

TEST_F(LaneSetPeersTest, OpensLaneOnFirstUse) {
  OpenAll();
  RecvLane& end = From(2, kFirst, 0);
  SendLane& lane = *lanes(0).SendTo(kFirst, HostIndex(2));
  EXPECT_EQ(lanes(0).DescribeMissing(), "channel 0 to 10.0.0.3:7400");
  EXPECT_EQ(lanes(2).DescribeMissing(), "channel 0 from 10.0.0.1:7400");
  ASSERT_TRUE(Post(lane, 7));
  EXPECT_EQ(Take(end, 0), 7);
  EXPECT_EQ(lanes(0).DescribeMissing(), "");
  EXPECT_EQ(lanes(2).DescribeMissing(), "");
  const agent::v1::Lane stats = lanes(0).Stats().back();
  EXPECT_EQ(stats.channel(), kFirst.value());
  EXPECT_EQ(stats.to(), 2);
  EXPECT_EQ(stats.state(), "up");
}

TEST_F(LaneSetPeersTest, AcceptsSlicesWithinCreditBeforeConnection) {
  OpenAll();
  SendLane& lane = *lanes(0).SendTo(kFirst, HostIndex(2));
  for (uint8_t i = 0; i < kShape.slots; ++i) ASSERT_TRUE(Post(lane, i));
  EXPECT_FALSE(Post(lane, 99));
  EXPECT_FALSE(lanes(0).drained());
  RecvLane& end = From(2, kFirst, 0);
  for (uint8_t i = 0; i < kShape.slots; ++i) EXPECT_EQ(Take(end, i), i);
  EXPECT_TRUE(Run([&] { return lanes(0).drained(); }));
}

TEST_F(LaneSetPeersTest, BuffersSlicesBeforeReceiveFrom) {
  OpenAll();
  ASSERT_TRUE(Post(*lanes(0).SendTo(kFirst, HostIndex(2)), 5));
  Run([] { return false; });
  EXPECT_EQ(Take(From(2, kFirst, 0), 0), 5);
}

TEST_F(LaneSetPeersTest, ReturnsTheSameLaneEachTime) {
  OpenAll();
  EXPECT_EQ(lanes(0).SendTo(kFirst, HostIndex(1)), channel_of(0, 0).send);
  EXPECT_EQ(&From(0, kFirst, 3), channel_of(0, 0).receive);
  SendLane* const across = lanes(0).SendTo(kFirst, HostIndex(2));
  EXPECT_EQ(lanes(0).SendTo(kFirst, HostIndex(2)), across);
  EXPECT_NE(lanes(0).SendTo(ChannelId(1), HostIndex(2)), across);
  RecvLane* const end = &From(2, kFirst, 0);
  Run([] { return false; });
  EXPECT_EQ(&From(2, kFirst, 0), end);
  const RegionSpan staging = *lanes(0).StagingTo(kFirst, HostIndex(2));
  EXPECT_EQ(staging.bytes, kShape.staging_bytes());
  EXPECT_EQ(lanes(0).StagingTo(kFirst, HostIndex(2))->address(), staging.address());
}

TEST_F(LaneSetPeersTest, MessagesUseSeparateLanes) {
  OpenAll();
  SendLane& messages = *lanes(0).SendTo(kMessages, HostIndex(1));
  EXPECT_NE(&messages, channel_of(0, 0).send);
  ASSERT_TRUE(Post(messages, 1));
  ASSERT_TRUE(Post(*channel_of(0, 0).send, 2));
  EXPECT_EQ(Take(*channel_of(1, 0).receive, 0), 2);
  RecvLane& end = From(1, kMessages, 0);
  std::byte there{};
  const RegionSpan memory = SpanAt(&there, 1);
  EXPECT_TRUE(end.Expect(0, memory, SliceTag{}));
  EXPECT_TRUE(Run([&] { return end.Landed(0) == Landing::kDirect; }));
  EXPECT_EQ(there, std::byte{1});
}

TEST_F(LaneSetPeersTest, MessageLanesNeedNoMemory) {
  OpenAll();
  const int before = device_.taken;
  device_.left = 0;
  for (int lane = 0; lane < kMaxChannels; ++lane) {
    ASSERT_TRUE(Post(*lanes(0).SendTo(MessageChannel(lane), HostIndex(2)), 5));
  }
  Run([] { return false; });
  EXPECT_EQ(From(2, kMessages, 0).slots().bytes, 0u);
  EXPECT_EQ(device_.taken, before);
  for (const Host& host : hosts_) EXPECT_TRUE(host.status.ok()) << host.status;
}

TEST_F(LaneSetPeersTest, LanesToOnePeerOverOneNicMayShareQueues) {
  OpenAll();
  SharedQueueKey ring = lanes(0).SendTo(kFirst, HostIndex(1))->queues();
  EXPECT_EQ(ring.peer, (Endpoint{AddressOf(1), kPort}));
  EXPECT_EQ(ring.domain.nic.address, AddressOf(0));
  EXPECT_NE(ring.source_port, 0) << "the strategy's";
  SharedQueueKey other = lanes(0).SendTo(ChannelId(1), HostIndex(1))->queues();
  EXPECT_NE(other, ring) << "it has a route of its own";
  ring.source_port = other.source_port = 0;
  EXPECT_EQ(other, ring);
  lanes(0).SendTo(kMessages, HostIndex(1));
  Run([] { return false; });
  EXPECT_EQ(lanes(0).SendTo(kMessages, HostIndex(1))->queues(), ring) << "of any route";
  EXPECT_NE(lanes(0).SendTo(kFirst, HostIndex(2))->queues(), ring) << "another peer";
  EXPECT_EQ(From(1, kFirst, 0).queues().domain.nic.address, AddressOf(1)) << "the receiver's own NIC";
}

TEST_F(LaneSetPeersTest, LanesOfAnotherClassUseOtherQueues) {
  HostPacing pacing;
  LaneSetOptions options = OptionsOf(0);
  options.pacing = &pacing;
  auto set = std::move(*LaneSet::Make(options));
  SendLane& before = *set->SendTo(kFirst, HostIndex(1));
  const SharedQueueKey lowest = before.queues();
  EXPECT_EQ(lowest.traffic_class, TrafficClass(0));
  set->SetRateLimits({.priority = 3});
  EXPECT_EQ(before.queues().traffic_class, TrafficClass(3));
  EXPECT_NE(before.queues(), lowest);
  EXPECT_EQ(set->SendTo(kFirst, HostIndex(2))->queues().traffic_class, TrafficClass(3));
  for (const int peer : {2, 3}) {  // a new lane, and the ring's
    EXPECT_EQ((*set->ReceiveFrom(kFirst, HostIndex(peer)))->queues().traffic_class,
              TrafficClass(3));
  }
}

TEST_F(LaneSetPeersTest, AllHostsOpenAllLanesAtOnce) {
  OpenAll();
  for (int from = 0; from < kHosts; ++from) {
    for (int to = 0; to < kHosts; ++to) {
      for (int c = 0; c < kChannels && from != to; ++c) {
        SendLane& lane = *lanes(from).SendTo(ChannelId(c), HostIndex(to));
        ASSERT_TRUE(Post(lane, static_cast<uint8_t>(10 * from + to)));
      }
    }
  }
  for (int from = 0; from < kHosts; ++from) {
    for (int to = 0; to < kHosts; ++to) {
      for (int c = 0; c < kChannels && from != to; ++c) {
        EXPECT_EQ(Take(From(to, ChannelId(c), from), 0), 10 * from + to);
      }
    }
  }
}

// ---- Connections that break ---------------------------------------------------------------------

TEST_F(LaneSetPeersTest, ReplacesBrokenLane) {
  OpenAll();
  SendLane& lane = *lanes(0).SendTo(kFirst, HostIndex(2));
  RecvLane& end = From(2, kFirst, 0);
  ASSERT_TRUE(Post(lane, 1));
  EXPECT_EQ(Take(end, 0), 1);
  EXPECT_EQ(network_.Cut(AddressOf(0), AddressOf(2)), 1);
  ASSERT_TRUE(Post(lane, 2));
  EXPECT_EQ(Take(end, 1), 2);
  EXPECT_EQ(lanes(0).Stats().back().reconnects(), 1u);
}

TEST_F(LaneSetPeersTest, FailsBothEndsAfterReconnectTimeout) {
  OpenAll();
  SendLane& lane = *lanes(0).SendTo(kFirst, HostIndex(2));
  ASSERT_TRUE(Post(lane, 1));
  EXPECT_EQ(Take(From(2, kFirst, 0), 0), 1);
  network_.Partition(AddressOf(0), AddressOf(2));
  network_.Cut(AddressOf(0), AddressOf(2));
  const MonotonicNs broken = clock_.Now();
  for (int h : {0, 2}) {
    ASSERT_TRUE(RunToError(h));
    EXPECT_THAT(hosts_[h].status.message(),
                HasSubstr("lane of channel 0 with host " + AddressOf(2 - h) + ":7400"));
    EXPECT_EQ(clock_.Now() - broken, kLaneReconnectTimeoutNs);
  }
  EXPECT_TRUE(hosts_[1].status.ok()) << hosts_[1].status;
}

TEST_F(LaneSetPeersTest, FailsOnRejectedLane) {
  OpenAll();
  hosts_[2].listener.reset();
  lanes(0).SendTo(kFirst, HostIndex(2));
  ASSERT_TRUE(RunToError(0));
  EXPECT_TRUE(absl::IsUnavailable(hosts_[0].status)) << hosts_[0].status;
  EXPECT_THAT(hosts_[0].status.message(), HasSubstr("10.0.0.3:7400"));
}

TEST_F(LaneSetPeersTest, TimesOutOnSilentHost) {
  OpenAll();
  network_.Partition(AddressOf(0), AddressOf(2));
  lanes(0).SendTo(kFirst, HostIndex(2));
  EXPECT_LT(lanes(0).NextDeadline(), kNever) << "no byte may arrive to wake the engine";
  EXPECT_TRUE(Run([&] { return !hosts_[0].status.ok(); }, 60 * kNsPerSec));
  EXPECT_THAT(hosts_[0].status.message(), HasSubstr("10.0.0.3:7400"));
}

TEST_F(LaneSetPeersTest, IgnoresBrokenLaneToDepartedHost) {
  OpenAll();
  lanes(0).MarkDeparted(HostIndex(2));
  hosts_[2].lanes.reset();
  hosts_[2].listener.reset();
  network_.CutHost(AddressOf(2));
  lanes(0).SendTo(kFirst, HostIndex(2));
  From(0, kFirst, 2);
  EXPECT_FALSE(Run([&] { return !hosts_[0].status.ok(); }, 10 * kLaneReconnectTimeoutNs))
      << hosts_[0].status;
  EXPECT_TRUE(lanes(0).drained());
  EXPECT_EQ(lanes(0).NextDeadline(), kNever);
}

// ---- Errors -------------------------------------------------------------------------------------

TEST_F(LaneSetPeersTest, AllocatesNothingForIllegalLane) {
  OpenAll();
  const int before = device_.taken;
  std::vector<Preamble> wrong;
  for (int channel : {-1, kChannels, kMaxChannels - 1, 2 * kMaxChannels, 1 << 30})
    wrong.push_back(LaneFrom(2, 0, ChannelId(channel)));
  for (int from : {-1, 0, kHosts, 1 << 30}) wrong.push_back(LaneFrom(from, 0, kFirst));
  for (const Preamble& preamble : wrong) {
    auto wire = std::make_shared<FakeWire>();
    lanes(0).Accept(preamble, std::make_unique<FakeConnection>(wire));
    EXPECT_EQ(wire.use_count(), 1) << ToString(preamble);
  }
  EXPECT_EQ(device_.taken, before);
}

TEST_F(LaneSetPeersTest, FailsWithoutMemoryForPeersLane) {
  OpenAll();
  device_.left = 0;
  EXPECT_TRUE(absl::IsResourceExhausted(lanes(0).ReceiveFrom(kFirst, HostIndex(2)).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(lanes(0).StagingTo(kFirst, HostIndex(2)).status()));
  auto wire = std::make_shared<FakeWire>();
  lanes(0).Accept(LaneFrom(2, 0, kFirst), std::make_unique<FakeConnection>(wire));
  EXPECT_EQ(wire.use_count(), 1) << "closed";
  EXPECT_EQ(lanes(0).NextDeadline(), 0) << "at once";
  ASSERT_TRUE(RunToError(0));
  EXPECT_TRUE(absl::IsResourceExhausted(hosts_[0].status)) << hosts_[0].status;
}

TEST_F(LaneSetPeersTest, EnforcesTotalMemoryLimit) {
  LaneSetOptions options = OptionsOf(0);
  options.strategy.lanes = {.slots = 16, .slot_bytes = kMaxSlotBytes};  // 256 MiB for each end
  options.strategy.channels.resize(1);
  auto set = std::move(*LaneSet::Make(options));
  int fit = 0;
  absl::Status status;
  for (int h = 1; h < kHosts; ++h) {
    status = set->ReceiveFrom(kFirst, HostIndex(h)).status();
    fit += status.ok() ? 1 : 0;
    EXPECT_TRUE(set->ReceiveFrom(kMessages, HostIndex(h)).ok()) << "it has no slots";
  }
  EXPECT_TRUE(set->StagingTo(kFirst, HostIndex(1)).ok());
  status = set->StagingTo(kFirst, HostIndex(2)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("use fewer channels"));
  EXPECT_EQ(fit, 3) << "with the ring's slots";
}

}  // namespace lane_set_peers_test
}  // namespace mccs
