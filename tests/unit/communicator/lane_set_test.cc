// The lanes of the rings, between two hosts.
#include "service/communicator/lanes/lane_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/communicator/fake_connection.h"
#include "tests/unit/communicator/lane_set_hosts.h"

namespace mccs {
namespace lane_set_test {

using testing::HasSubstr;

class LaneSetTest : public LaneSetHosts {
 protected:
  LaneSetTest() : LaneSetHosts(2) {}
};

// ---- Opening ------------------------------------------------------------------------------------

TEST_F(LaneSetTest, OpensRingLanesOnEveryChannel) {
  OpenAll();
  for (int h : {0, 1}) {
    EXPECT_EQ(lanes(h).DescribeMissing(), "");
    ASSERT_EQ(lanes(h).Stats().size(), static_cast<size_t>(kChannels));
    for (int c = 0; c < kChannels; ++c) {
      const agent::v1::Lane stats = StatsOf(h, c);
      EXPECT_EQ(stats.from(), h);
      EXPECT_EQ(stats.to(), 1 - h);
      EXPECT_EQ(stats.state(), "up");
    }
  }
  ExpectCarries(0, 7);
  ExpectCarries(1, 8);
}

TEST_F(LaneSetTest, UsesSourcePortsOfStrategy) {
  OpenAll();
  for (int c = 0; c < kChannels; ++c) {
    for (int h : {0, 1}) {
      const Endpoint expected{AddressOf(h), static_cast<uint16_t>(kSourcePort + 2 * c + h)};
      EXPECT_EQ(StatsOf(h, c).local(), ToString(expected));
    }
  }
}

TEST_F(LaneSetTest, RejectsForeignSourceAddress) {
  LaneSetOptions options = OptionsOf(0);
  options.strategy.channels[1].addresses = {"10.7.7.7", AddressOf(1)};
  const absl::Status status = LaneSet::Make(options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("channel 1: source address 10.7.7.7"));
  EXPECT_EQ(device_.taken, 0);
  options.strategy.channels[1].addresses = {AddressOf(0), "10.7.7.7"};
  EXPECT_TRUE(LaneSet::Make(options).ok()) << "only the other host can check it";
}

TEST_F(LaneSetTest, OneHostNeedsNoLanes) {
  LaneSetOptions options = OptionsOf(0);
  for (ChannelStrategy& channel : options.strategy.channels)
    channel = {.ring = {HostIndex(0)}, .source_ports = {}};
  auto set = std::move(*LaneSet::Make(options));
  EXPECT_TRUE(set->ready());
  const auto moved = set->Poll();
  ASSERT_TRUE(moved.ok());
  EXPECT_FALSE(*moved);
  EXPECT_TRUE(set->drained());
  EXPECT_TRUE(set->Stats().empty());
  EXPECT_EQ(device_.taken, 0);
  EXPECT_EQ(network_.open_streams(), 0u);
}

TEST_F(LaneSetTest, NamesLanesThatAreNotUp) {
  OpenDoor(0);
  OpenDoor(1);
  Make(0);  // host 1 closes the connections
  ASSERT_FALSE(Run([&] { return lanes(0).ready(); }, kLaneReconnectTimeoutNs / 2));
  EXPECT_TRUE(hosts_[0].status.ok());
  EXPECT_THAT(lanes(0).DescribeMissing(),
              HasSubstr("channel 0 from 10.0.0.2:7400, channel 1 from 10.0.0.2:7400"));
}

TEST_F(LaneSetTest, FailsIfThePeerClosesEachConnection) {
  OpenDoor(0);
  OpenDoor(1);
  Make(0);
  const MonotonicNs begin = clock_.Now();
  ASSERT_TRUE(RunToError(0));
  EXPECT_LT(clock_.Now() - begin, 2 * kLaneReconnectTimeoutNs);
  EXPECT_THAT(hosts_[0].status.message(), HasSubstr("10.0.0.2:7400"));
  EXPECT_LT(network_.streams_opened(), 100) << "it must not reconnect in a hot loop";
}

TEST_F(LaneSetTest, FailsIfFirstConnectionIsRefused) {
  Make(0);
  ASSERT_TRUE(RunToError(0));
  EXPECT_TRUE(absl::IsUnavailable(hosts_[0].status)) << hosts_[0].status;
  EXPECT_THAT(hosts_[0].status.message(), HasSubstr("10.0.0.2:7400"));
}

TEST_F(LaneSetTest, FailsWithoutMemory) {
  device_.left = 0;
  EXPECT_TRUE(absl::IsResourceExhausted(LaneSet::Make(OptionsOf(0)).status()));
}

// ---- Connections from peers ---------------------------------------------------------------------

TEST_F(LaneSetTest, ClosesConnectionForUnknownLane) {
  OpenAll();
  std::vector<Preamble> wrong(6, LaneFrom(0, 1, ChannelId(0)));
  wrong[0].epoch = Epoch(2);
  wrong[1].channel = ChannelId(kChannels);
  wrong[2].channel = ChannelId(-1);
  wrong[3].from_host = HostIndex(1);  // not the previous host
  wrong[4].to_host = HostIndex(0);
  wrong[5].from_host = HostIndex(1 << 30);
  for (const Preamble& preamble : wrong) {
    auto wire = std::make_shared<FakeWire>();
    lanes(1).Accept(preamble, std::make_unique<FakeConnection>(wire));
    EXPECT_EQ(wire.use_count(), 1) << ToString(preamble);
  }
  ExpectCarries(0, 7);
  EXPECT_EQ(StatsOf(0, 0).reconnects(), 0u);
}

TEST_F(LaneSetTest, SingleHostClosesEveryConnection) {
  LaneSetOptions options = OptionsOf(0);
  options.strategy.channels = {{.ring = {HostIndex(0)}, .source_ports = {}}};
  auto set = std::move(*LaneSet::Make(options));
  auto wire = std::make_shared<FakeWire>();
  set->Accept({.purpose = ConnectionPurpose::kLane, .epoch = Epoch(1)},
              std::make_unique<FakeConnection>(wire));
  EXPECT_EQ(wire.use_count(), 1);
}

// The sender opens another only after it lost the first, which the receiver may not know yet.
TEST_F(LaneSetTest, NewerConnectionReplacesOlder) {
  OpenAll();
  const Preamble preamble = LaneFrom(0, 1, ChannelId(0));
  auto first = std::make_shared<FakeWire>(), second = std::make_shared<FakeWire>();
  lanes(1).Accept(preamble, std::make_unique<FakeConnection>(first));
  lanes(1).Accept(preamble, std::make_unique<FakeConnection>(second));
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(second.use_count(), 2);
  second.reset();
  // The real sender finds its stream closed, opens another one and continues.
  ExpectCarries(0, 9);
}

TEST_F(LaneSetTest, FailsOnProtocolError) {
  OpenAll();
  auto wire = std::make_shared<FakeWire>();
  wire->to_read.assign(4096, 'Z');
  const MonotonicNs before = clock_.Now();
  lanes(1).Accept(LaneFrom(0, 1, ChannelId(1)), std::make_unique<FakeConnection>(wire));
  ASSERT_TRUE(RunToError(1));
  EXPECT_TRUE(absl::IsDataLoss(hosts_[1].status)) << hosts_[1].status;
  EXPECT_THAT(hosts_[1].status.message(), HasSubstr("lane of channel 1 with host 10.0.0.1:7400"));
  EXPECT_EQ(clock_.Now(), before);
}

// ---- Broken and replaced connections ------------------------------------------------------------

TEST_F(LaneSetTest, ReplacesConnectionWithoutLossOrDuplicates) {
  OpenAll();
  uint8_t sent = 0, received = 0;
  for (int cut = 0; cut < 5; ++cut) {
    for (int i = 0; i < 3; ++i) {
      if (Send(0, 0, sent)) ++sent;
    }
    network_.AdvanceTo(clock_.Now() + cut * 40 * kNsPerUs);
    PollAll();
    EXPECT_GT(network_.Cut(AddressOf(0), AddressOf(1)), 0);
    EXPECT_TRUE(Run([&] {
      while (const std::optional<uint8_t> got = Take(1, 0)) EXPECT_EQ(*got, received++);
      return received == sent && lanes(0).DescribeMissing().empty();
    }));
  }
  EXPECT_TRUE(Run([&] { return lanes(0).drained() && lanes(1).drained(); }));
  EXPECT_GE(sent, 10);
  EXPECT_FALSE(Take(1, 0).has_value());
  EXPECT_EQ(StatsOf(0, 0).reconnects(), 5u);
  EXPECT_EQ(StatsOf(0, 0).local(), ToString(Endpoint{AddressOf(0), kSourcePort}))
      << "the route stays";
  for (const Host& host : hosts_) EXPECT_TRUE(host.status.ok()) << host.status;
}

TEST_F(LaneSetTest, NamesBrokenLaneUntilReplaced) {
  OpenAll();
  network_.Partition(AddressOf(0), AddressOf(1));
  ASSERT_TRUE(network_.CutStream({AddressOf(0), kSourcePort}));
  PollAll();
  EXPECT_EQ(lanes(0).DescribeMissing(), "channel 0 to 10.0.0.2:7400");
  EXPECT_EQ(lanes(1).DescribeMissing(), "channel 0 from 10.0.0.1:7400");
  EXPECT_TRUE(lanes(0).ready()) << "it has had its first connection";
  EXPECT_THAT(StatsOf(0, 0).state(), HasSubstr("stalled"));
  network_.Heal(AddressOf(0), AddressOf(1));
  EXPECT_TRUE(Run(
      [&] { return lanes(0).DescribeMissing().empty() && lanes(1).DescribeMissing().empty(); }));
}

TEST_F(LaneSetTest, ToleratesBreakWithinReconnectTimeout) {
  OpenAll();
  network_.Partition(AddressOf(0), AddressOf(1));
  network_.Cut(AddressOf(0), AddressOf(1));
  ASSERT_TRUE(Send(0, 0, 5)) << "a stalled lane accepts slices within its credit";
  Run([] { return false; }, kLaneReconnectTimeoutNs - 50 * kNsPerMs);
  network_.Heal(AddressOf(0), AddressOf(1));
  std::optional<uint8_t> got;
  EXPECT_TRUE(Run([&] { return (got = Take(1, 0)).has_value(); }));
  EXPECT_EQ(got, 5);
  // The next break has the full timeout again.
  Run([] { return false; }, kNsPerSec);
  for (const Host& host : hosts_) EXPECT_TRUE(host.status.ok()) << host.status;
}

TEST_F(LaneSetTest, FailsBothEndsAfterReconnectTimeout) {
  OpenAll();
  network_.Partition(AddressOf(0), AddressOf(1));
  network_.CutStream({AddressOf(0), kSourcePort + 2});
  const MonotonicNs broken = clock_.Now();
  for (int h : {0, 1}) {
    ASSERT_TRUE(RunToError(h));
    EXPECT_TRUE(absl::IsUnavailable(hosts_[h].status)) << hosts_[h].status;
    EXPECT_THAT(hosts_[h].status.message(),
                HasSubstr("lane of channel 1 with host " + AddressOf(1 - h) + ":7400"));
    EXPECT_EQ(clock_.Now() - broken, kLaneReconnectTimeoutNs);
  }
}

TEST_F(LaneSetTest, StopsRedialingAfterReconnectTimeout) {
  OpenAll();
  hosts_[1].lanes.reset();
  hosts_[1].listener.reset();
  network_.CutHost(AddressOf(1));
  const MonotonicNs broken = clock_.Now();
  ASSERT_TRUE(RunToError(0));
  EXPECT_EQ(clock_.Now() - broken, kLaneReconnectTimeoutNs);
}

TEST_F(LaneSetTest, RetriesBusySourcePort) {
  OpenAll();
  network_.Cut(AddressOf(0), AddressOf(1));
  dialler_.busy_until = clock_.Now() + kLaneReconnectTimeoutNs / 2;
  ASSERT_TRUE(Send(0, 0, 3));
  std::optional<uint8_t> got;
  EXPECT_TRUE(Run([&] { return (got = Take(1, 0)).has_value() || !hosts_[0].status.ok(); }));
  EXPECT_EQ(got, 3) << hosts_[0].status;
  EXPECT_LE(clock_.Now(), dialler_.busy_until + 60 * kNsPerMs);
  EXPECT_LE(dialler_.rejected, 2 * kChannels * 10) << "not in a tight loop";
}

// ---- Draining and the end -----------------------------------------------------------------------

TEST_F(LaneSetTest, IsDrainedWhenAllThatWasSentIsAcknowledged) {
  OpenAll();
  EXPECT_TRUE(Run([&] { return lanes(0).drained(); }));
  ASSERT_TRUE(Send(0, 0, 1));
  PollAll();
  EXPECT_FALSE(lanes(0).drained());
  ASSERT_TRUE(Run([&] { return Take(1, 0).has_value(); }));
  EXPECT_TRUE(Run([&] { return lanes(0).drained() && lanes(1).drained(); }));
}

// The slices are not released, so no credit is due.
TEST_F(LaneSetTest, AcknowledgesShortSlicesWithinTheDelay) {
  OpenAll();
  RecvLane& lane = *channel_of(1, 0).receive;
  ASSERT_TRUE(Send(0, 0, 1));
  EXPECT_TRUE(Run([&] { return lanes(0).drained(); })) << "the first one at once";
  EXPECT_EQ(lanes(1).NextDeadline(), kNever);
  const MonotonicNs begin = clock_.Now();
  ASSERT_TRUE(Send(0, 0, 2));
  ASSERT_TRUE(Run([&] { return lane.Landed(1) != Landing::kNotYet; }));
  EXPECT_TRUE(lane.defers_acknowledgement()) << "soon after the first one";
  EXPECT_LE(lanes(1).NextDeadline(), begin + kMaxAcknowledgementDelayNs);
  EXPECT_TRUE(Run([&] { return lanes(0).drained(); }));
  EXPECT_LE(clock_.Now(), begin + 2 * kMaxAcknowledgementDelayNs);
  EXPECT_EQ(lanes(1).NextDeadline(), kNever);
}

TEST_F(LaneSetTest, DoesNotWaitForDepartedHost) {
  OpenAll();
  ASSERT_TRUE(Send(0, 0, 1));
  lanes(0).MarkDeparted(HostIndex(1));
  hosts_[1].lanes.reset();
  hosts_[1].listener.reset();
  network_.CutHost(AddressOf(1));
  EXPECT_FALSE(Run([&] { return !hosts_[0].status.ok(); }, 10 * kLaneReconnectTimeoutNs))
      << hosts_[0].status;
  EXPECT_TRUE(lanes(0).drained());
  EXPECT_EQ(lanes(0).NextDeadline(), kNever) << "the engine may sleep";
}

TEST_F(LaneSetTest, ToleratesDepartureReportedAfterBreak) {
  OpenAll();
  hosts_[1].lanes.reset();
  hosts_[1].listener.reset();
  network_.CutHost(AddressOf(1));
  Run([] { return false; }, kLaneReconnectTimeoutNs / 2);
  lanes(0).MarkDeparted(HostIndex(1));
  EXPECT_FALSE(Run([&] { return !hosts_[0].status.ok(); }, 10 * kLaneReconnectTimeoutNs))
      << hosts_[0].status;
  EXPECT_EQ(lanes(0).NextDeadline(), kNever);
}

// Host 0 has finished its work on the lanes; host 1 has not.
TEST_F(LaneSetTest, RestoresLanesWhoseLossItTolerates) {
  OpenAll();
  lanes(0).TolerateLosses();
  network_.Cut(AddressOf(0), AddressOf(1));
  EXPECT_FALSE(Run([&] { return !hosts_[1].status.ok(); }, 3 * kLaneReconnectTimeoutNs))
      << hosts_[1].status;
  EXPECT_TRUE(lanes(0).outgoing()[0]->lane().status().ok());
  EXPECT_TRUE(hosts_[0].status.ok()) << hosts_[0].status;
  EXPECT_EQ(lanes(0).NextDeadline(), kNever);
}

TEST_F(LaneSetTest, ToleratesThatAPeerClosesItsEnd) {
  OpenAll();
  for (int h : {0, 1}) lanes(h).TolerateLosses();
  hosts_[1].lanes.reset();
  EXPECT_FALSE(Run([&] { return !hosts_[0].status.ok(); }, 10 * kLaneReconnectTimeoutNs))
      << hosts_[0].status;
  EXPECT_GT(lanes(0).NextDeadline(), clock_.Now()) << "the engine may sleep";
}

TEST_F(LaneSetTest, HasNoDeadlineWithoutBreak) {
  OpenAll();
  for (int h : {0, 1}) EXPECT_EQ(lanes(h).NextDeadline(), kNever);
}

}  // namespace lane_set_test
}  // namespace mccs
