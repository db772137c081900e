// The contract between a Transport and the SendGate that limits its lanes, and with users that
// place slices by their tags (SliceSink).
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_GATE_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_GATE_CONTRACT_H_

#include <vector>

#include "tests/contract/transport_fixture.h"

namespace mccs {

// Allows a number of bytes, and records its calls.
class BudgetGate final : public SendGate {
 public:
  uint64_t Allowance() override {
    ++asked;
    return std::min(left, at_once);
  }
  void Sent(uint64_t bytes) override {
    EXPECT_GT(bytes, 0u);
    EXPECT_LE(bytes, std::min(left, at_once) + may_exceed);
    left -= std::min(left, bytes);
    sent += bytes;
  }
  void OnTurnEnd(const Turn& turn) override { last = turn; }

  uint64_t left = 0;
  uint64_t at_once = 1 << 20;
  uint64_t may_exceed = 0;
  uint64_t sent = 0;
  uint64_t asked = 0;
  Turn last;
};

TEST_P(TransportContract, AClosedGateBlocksSlicesUntilItOpens) {
  constexpr uint32_t kBytes = 50'000;
  Start({.slots = 4, .slot_bytes = kBytes});
  BudgetGate gate;
  gate.may_exceed = kBytes;
  send_->SetGate(&gate);
  Settle();
  EXPECT_EQ(gate.asked, 0u) << "there is nothing to send";
  EXPECT_EQ(send_->waits_for(), LaneWait::kNothing);
  const std::vector<std::byte> first = Payload(1, kBytes), second = Payload(2, 7);
  Post(first, TagOf(1));
  Post(second, TagOf(2));
  Settle();
  EXPECT_EQ(recv_->Landed(0), Landing::kNotYet);
  EXPECT_GT(gate.asked, 0u);
  EXPECT_EQ(send_->waits_for(), LaneWait::kRate);
  EXPECT_TRUE(gate.last.held);
  EXPECT_TRUE(gate.last.unsent);
  EXPECT_FALSE(send_->Poll()) << "no progress";
  gate.left = 1 << 20;
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(1) != Landing::kNotYet; }));
  EXPECT_TRUE(SlotHolds(0, first));
  EXPECT_TRUE(SlotHolds(1, second));
  EXPECT_EQ(gate.sent, kBytes + 7u) << "payload only";
  ASSERT_TRUE(RunUntil([&] { return send_->acknowledged() == 2; }));
  send_->Poll();
  EXPECT_FALSE(gate.last.held);
  EXPECT_FALSE(gate.last.unsent);
  EXPECT_FALSE(gate.last.in_flight);
}

TEST_P(TransportContract, SlicesInAnyPiecesThatAGateAllowsArriveWhole) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    constexpr uint32_t kBytes = 9'000;
    std::mt19937_64 random(seed);
    Start({.slots = 4, .slot_bytes = kBytes}, seed);
    BudgetGate gate;
    gate.may_exceed = kBytes;
    send_->SetGate(&gate);
    std::vector<std::vector<std::byte>> payloads;
    constexpr uint64_t kSlices = 40;
    for (uint64_t n = 0; n < kSlices; ++n) payloads.push_back(Payload(n, random() % (kBytes + 1)));
    uint64_t posted = 0, landed = 0, bytes = 0;
    ASSERT_TRUE(RunUntil([&] {
      gate.left += random() % 700;
      gate.at_once = 1 + random() % 500;
      while (posted < kSlices && send_->has_room()) {
        Post(payloads[posted], TagOf(posted));
        bytes += payloads[posted++].size();
      }
      while (landed < posted && recv_->Landed(landed) != Landing::kNotYet) {
        EXPECT_TRUE(SlotHolds(landed, payloads[landed])) << landed;
        recv_->Release(landed++);
      }
      return landed == kSlices;
    }));
    EXPECT_EQ(gate.sent, bytes);
  }
}

TEST_P(TransportContract, ARemovedGateLimitsNothing) {
  Start({.slots = 4, .slot_bytes = 50'000});
  BudgetGate gate;
  send_->SetGate(&gate);
  const std::vector<std::byte> payload = Payload(1, 50'000);
  Post(payload, TagOf(1));
  Settle();
  send_->SetGate(nullptr);
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(0) != Landing::kNotYet; }));
  EXPECT_TRUE(SlotHolds(0, payload));
  EXPECT_EQ(gate.sent, 0u);
}

TEST_P(TransportContract, ALaneReportsWhatItWaitsFor) {
  Start({.slots = 2, .slot_bytes = 1'000});
  const std::vector<std::byte> payload = Payload(1, 1'000);
  Post(payload, TagOf(1));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(0) != Landing::kNotYet; }));
  EXPECT_EQ(send_->waits_for(), LaneWait::kNothing);
  Post(payload, TagOf(1));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(1) != Landing::kNotYet; }));
  Settle();
  EXPECT_EQ(send_->waits_for(), LaneWait::kCredit);
  recv_->Release(0);
  Settle();
  EXPECT_EQ(send_->waits_for(), LaneWait::kNothing);
}

// ---- Slices that a SliceSink places -------------------------------------------------------------

// Has a buffer for each tag 0 … n−1 and rejects all others.
class BuffersByTag final : public SliceSink {
 public:
  explicit BuffersByTag(size_t tags) : buffers(tags) {}

  std::optional<RegionSpan> FindDestination(SliceNumber, const SliceTag& tag,
                                            uint32_t bytes) override {
    uint64_t value;
    std::memcpy(&value, tag.data(), sizeof(value));
    if (value >= buffers.size()) return std::nullopt;
    std::vector<std::byte>& buffer = buffers[value];
    buffer.resize(bytes);
    return SpanAt(buffer.data(), bytes);
  }

  std::vector<std::vector<std::byte>> buffers;
};

TEST_P(TransportContract, ASinkPlacesUnexpectedSlices) {
  StartWithoutSlots({.slots = 4, .slot_bytes = 10'000});
  BuffersByTag sink(2);
  recv_->SetSink(&sink);
  const std::vector<std::byte> first = Payload(1, 10'000), second = Payload(2, 20);
  std::vector<std::byte> expected(10'000, kFill);
  Post(first, TagOf(1));
  Post(second, TagOf(0));
  Post(first, TagOf(7));   // Rejected by the sink.
  Post(second, TagOf(0));  // Expected with another tag: the sink is not called.
  const RegionSpan all = SpanAt(expected.data(), second.size());
  ASSERT_TRUE(recv_->Expect(3, all, TagOf(9)));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(3) != Landing::kNotYet; }));
  EXPECT_EQ(recv_->Landed(0), Landing::kDirect);
  EXPECT_EQ(recv_->Landed(1), Landing::kDirect);
  EXPECT_EQ(sink.buffers[1], first);
  EXPECT_EQ(sink.buffers[0], second);
  EXPECT_EQ(recv_->Landed(2), Landing::kDiscarded);
  EXPECT_EQ(recv_->Landed(3), Landing::kDiscarded);
  EXPECT_EQ(std::ranges::count(expected, kFill), 10'000);
  recv_->SetSink(nullptr);
}

TEST_P(TransportContract, ASinkIsAskedAgainAfterABrokenConnection) {
  constexpr SliceNumber kSlices = 20;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    StartWithoutSlots({.slots = 3, .slot_bytes = 30'000}, seed);
    BuffersByTag sink(kSlices);
    recv_->SetSink(&sink);
    std::mt19937_64 random(seed);
    std::vector<std::vector<std::byte>> payloads;
    for (uint64_t n = 0; n < kSlices; ++n) payloads.push_back(Payload(n, random() % 5 == 0 ? 0 : random() % 30'001));
    auto attach = [&] {
      TransportWorld::Ends ends = world_->Connect();
      send_->Attach(std::make_unique<CutConnection>(std::move(ends.sender), random() % 200'000));
      recv_->Attach(std::move(ends.receiver));
    };
    attach();
    SliceNumber landed = 0;
    ASSERT_TRUE(RunUntil([&] {
      if (!send_->status().ok() || !recv_->status().ok()) attach();
      if (send_->next() < kSlices) Post(payloads[send_->next()], TagOf(send_->next()));
      while (landed < kSlices && recv_->Landed(landed) != Landing::kNotYet) {
        EXPECT_EQ(recv_->Landed(landed), Landing::kDirect);
        recv_->Release(landed++);
      }
      return send_->acknowledged() == kSlices;
    }));
    EXPECT_EQ(sink.buffers, payloads);
    ExpectGuardsUntouched();
    if (HasFailure()) return;
  }
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_GATE_CONTRACT_H_
