// The contract of Transport for lanes that may share connections and queues, for the states of a
// lane, and for a lane that is created again.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_SHARING_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_SHARING_CONTRACT_H_

#include <gtest/gtest.h>

#include <vector>

#include "tests/contract/transport_fixture.h"

namespace mccs {

// Moves slices over one lane while others are in any state.
class SharedTransport : public TransportContract {
 protected:
  static constexpr LaneShape kShape{.slots = 3, .slot_bytes = 60'000};

  // Sends `count` slices over the pair and checks each.
  void ExpectCarries(LanePair& pair, uint64_t count) {
    std::vector<std::vector<std::byte>> payloads;
    const SliceNumber first = pair.send->next();
    for (uint64_t i = 0; i < count; ++i)
      payloads.push_back(Payload(i + 77, i % 2 == 0 ? 60'000 : 9));
    SliceNumber landed = first;
    ASSERT_TRUE(RunUntil([&] {
      const SliceNumber next = pair.send->next();
      if (next < first + count && pair.send->has_room()) {
        Post(*pair.send, payloads[next - first], TagOf(next));
      }
      while (landed < first + count && pair.recv->Landed(landed) != Landing::kNotYet) {
        EXPECT_EQ(pair.recv->Tag(landed), TagOf(landed));
        EXPECT_TRUE(SlotHolds(*pair.recv, landed, payloads[landed - first])) << "slice " << landed;
        pair.recv->Release(landed++);
      }
      return pair.send->acknowledged() == first + count;
    })) << "landed "
        << landed << ", sender " << pair.send->status() << ", receiver " << pair.recv->status();
  }
  // Uses the whole credit of the pair; its receiver releases nothing.
  void Fill(LanePair& pair) {
    const std::vector<std::byte> payload = Payload(1, kShape.slot_bytes);
    while (pair.send->has_room()) Post(*pair.send, payload, TagOf(1));
    EXPECT_TRUE(RunUntil([&] { return pair.send->acknowledged() == kShape.slots; }));
  }
};

TEST_P(SharedTransport, ALaneWithoutCreditDelaysNoOther) {
  Start(kShape);
  LanePair &stuck = AddLane(ChannelId(1)), &other = AddLane(ChannelId(2));
  ASSERT_EQ(stuck.send->queues(), other.send->queues());
  Fill(stuck);
  EXPECT_FALSE(stuck.send->has_room());
  ExpectCarries(other, 20);
  EXPECT_FALSE(stuck.send->has_room());
  EXPECT_TRUE(SlotHolds(*stuck.recv, 0, Payload(1, kShape.slot_bytes)));
  stuck.recv->Release(0);
  EXPECT_TRUE(RunUntil([&] { return stuck.send->has_room(); }));
}

TEST_P(SharedTransport, AReceiverThatIsNotPolledDelaysNoOtherLane) {
  Start(kShape);
  LanePair &asleep = AddLane(ChannelId(1)), &other = AddLane(ChannelId(2));
  ASSERT_TRUE(RunUntil([&] { return asleep.send->state() == LaneState::kReady; }));
  const std::unique_ptr<RecvLane> hidden = std::move(asleep.recv);  // RunUntil does not poll it
  const std::vector<std::byte> payload = Payload(1, kShape.slot_bytes);
  while (asleep.send->has_room()) Post(*asleep.send, payload, TagOf(1));
  ExpectCarries(other, 20);
}

TEST_P(SharedTransport, TheEndOfALaneDisturbsNoOther) {
  for (const bool sender_first : {true, false}) {
    Start(kShape);
    LanePair &ends = AddLane(ChannelId(1)), &other = AddLane(ChannelId(2));
    const std::vector<std::byte> payload = Payload(1, kShape.slot_bytes);
    ExpectCarries(other, 2);
    Post(*ends.send, payload, TagOf(1));  // in flight when the lane ends
    const std::vector<std::byte> more = Payload(2, kShape.slot_bytes);
    Post(*other.send, more, TagOf(2));
    if (sender_first) ends.send.reset();
    ends.recv.reset();
    ends.send.reset();
    ASSERT_TRUE(RunUntil([&] { return other.recv->Landed(2) != Landing::kNotYet; }));
    EXPECT_TRUE(SlotHolds(*other.recv, 2, more));
    other.recv->Release(2);
    ExpectCarries(other, 10);
    EXPECT_EQ(other.send->counters().reconnects, 0u);
    EXPECT_EQ(other.send->state(), LaneState::kReady);
  }
}

TEST_P(SharedTransport, ABrokenConnectionStallsTheLanesThatShareIt) {
  Start(kShape);
  LanePair &first = AddLane(ChannelId(1)), &second = AddLane(ChannelId(2));
  ExpectCarries(first, 2);
  ExpectCarries(second, 2);
  const bool shared = world_->BreakShared(first.send->queues());
  if (!shared) first.connection->CutNow();
  ASSERT_TRUE(RunUntil([&] {
    return first.send->state() == LaneState::kStalled && first.recv->state() == LaneState::kStalled;
  }));
  EXPECT_EQ(first.send->status().code(), absl::StatusCode::kUnavailable);
  if (shared) {
    EXPECT_TRUE(RunUntil([&] { return second.send->state() == LaneState::kStalled; }));
    Attach(second);
  }
  ExpectCarries(second, 4);
  Attach(first);
  ExpectCarries(first, 4);
  EXPECT_EQ(first.send->counters().reconnects, 1u);
  EXPECT_EQ(second.send->counters().reconnects, shared ? 1u : 0u);
}

TEST_P(SharedTransport, ALaneCreatedAgainReceivesNoSliceOfTheOldOne) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Start(kShape, seed);
    LanePair& pair = AddLane(ChannelId(1));
    std::vector<std::byte> output(kShape.slot_bytes);
    const std::vector<std::byte> old = Payload(1, kShape.slot_bytes);
    pair.send->WaitForPlaces();
    pair.recv->ExpectInSlot(0);
    EXPECT_TRUE(pair.recv->Expect(1, SpanOf(output), TagOf(1)));
    Post(*pair.send, old, TagOf(1));
    Post(*pair.send, old, TagOf(1));
    for (uint64_t i = 0; i < seed; ++i) {  // some of it is on its way
      pair.send->Poll();
      world_->Advance();
    }
    pair.recv.reset();
    const std::unique_ptr<SendLane> orphan = std::move(pair.send);  // still sends
    std::ranges::fill(pair.slots, kFill);
    std::ranges::fill(output, kFill);
    Make(pair, ChannelId(1));
    for (int i = 0; i < 200; ++i) {
      orphan->Poll();
      pair.recv->Poll();
      pair.send->Poll();
      world_->Advance();
    }
    EXPECT_EQ(pair.recv->Landed(0), Landing::kNotYet);
    EXPECT_EQ(std::ranges::count(pair.slots, kFill), static_cast<ptrdiff_t>(pair.slots.size()));
    EXPECT_EQ(std::ranges::count(output, kFill), static_cast<ptrdiff_t>(output.size()));
    // The old lane's slices may have broken what both share.
    for (int i = 0; i < 3; ++i) {
      Settle();
      if (!pair.send->status().ok() || !pair.recv->status().ok()) Attach(pair);
    }
    ExpectCarries(pair, 5);
  }
}

TEST_P(SharedTransport, ALaneHasNamedStates) {
  StartWithoutConnection(kShape);
  EXPECT_EQ(send_->state(), LaneState::kCreated);
  EXPECT_EQ(recv_->state(), LaneState::kCreated);
  EXPECT_EQ(send_->status().code(), absl::StatusCode::kUnavailable);
  const auto ready = [&] {
    return send_->state() == LaneState::kReady && recv_->state() == LaneState::kReady;
  };
  for (int connection = 1; connection <= 2; ++connection) {
    TransportWorld::Ends ends = world_->Connect();
    auto cut = std::make_unique<CutConnection>(std::move(ends.sender), size_t{1} << 40);
    CutConnection* const sender = cut.get();
    send_->Attach(std::move(cut));
    recv_->Attach(std::move(ends.receiver));
    EXPECT_EQ(send_->state(), LaneState::kExchanging);
    EXPECT_EQ(recv_->state(), LaneState::kExchanging);
    ASSERT_TRUE(RunUntil(ready));
    EXPECT_TRUE(send_->status().ok());
    if (!world_->BreakShared(send_->queues())) sender->CutNow();
    ASSERT_TRUE(RunUntil([&] {
      return send_->state() == LaneState::kStalled && recv_->state() == LaneState::kStalled;
    }));
    EXPECT_EQ(recv_->status().code(), absl::StatusCode::kUnavailable);
  }
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_SHARING_CONTRACT_H_
