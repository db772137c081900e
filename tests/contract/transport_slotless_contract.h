// The contract of Transport for lanes without slots: they only receive in place.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_SLOTLESS_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_SLOTLESS_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/contract/transport_fixture.h"

namespace mccs {

// Gives no memory for any slice.
class DecliningSink final : public SliceSink {
 public:
  std::optional<RegionSpan> FindDestination(SliceNumber, const SliceTag&, uint32_t) override {
    ++asked;
    return std::nullopt;
  }
  int asked = 0;
};

TEST_P(TransportContract, WithoutSlotsASliceWaitsForItsMemory) {
  for (const size_t bytes : {size_t{100}, size_t{50'000}}) {
    StartWithoutSlots({.slots = 3, .slot_bytes = 50'000});
    EXPECT_EQ(recv_->slots().bytes, 0u);
    EXPECT_TRUE(recv_->UnusedSlots().empty());
    std::vector<std::vector<std::byte>> payloads;
    for (uint64_t n = 0; n < 3; ++n) payloads.push_back(Payload(n, bytes));
    for (uint64_t n = 0; n < 3; ++n) Post(payloads[n], TagOf(4));
    Settle();
    EXPECT_EQ(recv_->Landed(0), Landing::kNotYet);
    EXPECT_EQ(recv_->OldestTag(), TagOf(4)) << "its owner sees the call";
    EXPECT_TRUE(send_->status().ok() && recv_->status().ok());
    std::vector<std::byte> output(3 * bytes, kFill);
    for (uint64_t n = 0; n < 3; ++n) {
      const RegionSpan part = SpanAt(output.data() + n * bytes, bytes);
      EXPECT_TRUE(recv_->Expect(n, part, TagOf(4)));
    }
    ASSERT_TRUE(RunUntil([&] { return recv_->Landed(2) != Landing::kNotYet; }));
    for (uint64_t n = 0; n < 3; ++n) {
      EXPECT_EQ(recv_->Landed(n), Landing::kDirect);
      EXPECT_TRUE(std::equal(payloads[n].begin(), payloads[n].end(), output.begin() + n * bytes));
      recv_->Release(n);
    }
    EXPECT_EQ(recv_->OldestTag(), std::nullopt);
    ASSERT_TRUE(RunUntil([&] { return send_->acknowledged() == 3; }));
  }
}

TEST_P(TransportContract, WithoutSlotsEmptySlicesLandAtOnce) {
  StartWithoutSlots({.slots = 4, .slot_bytes = 50'000});
  for (int n = 0; n < 3; ++n) Post({}, TagOf(1));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(2) != Landing::kNotYet; }));
  EXPECT_EQ(recv_->Landed(2), Landing::kInSlot);
  EXPECT_EQ(recv_->Bytes(2), 0u);
}

// The owner learns of the difference.
TEST_P(TransportContract, WithoutSlotsAMismatchedSliceIsDiscarded) {
  StartWithoutSlots({.slots = 4, .slot_bytes = 300'000});
  std::vector<std::byte> output(300'000, kFill);
  const RegionSpan all = SpanOf(output);
  const std::vector<std::byte> whole = Payload(1, 300'000), less = Payload(2, 299'999);
  EXPECT_TRUE(recv_->Expect(0, all, TagOf(1)));
  EXPECT_TRUE(recv_->Expect(1, all, TagOf(1)));
  EXPECT_TRUE(recv_->Expect(2, all, TagOf(1)));
  Post(whole, TagOf(9));
  Post(less, TagOf(1));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(1) != Landing::kNotYet; }));
  EXPECT_EQ(recv_->Landed(0), Landing::kDiscarded);
  EXPECT_EQ(recv_->Tag(0), TagOf(9));
  EXPECT_EQ(recv_->Landed(1), Landing::kDiscarded);
  EXPECT_EQ(recv_->Bytes(1), 299'999u);
  EXPECT_EQ(std::ranges::count(output, kFill), 300'000);
  Post(whole, TagOf(1));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(2) != Landing::kNotYet; }));
  EXPECT_EQ(recv_->Landed(2), Landing::kDirect);
  EXPECT_EQ(output, whole);
}

TEST_P(TransportContract, WithoutSlotsASliceThatTheSinkDeclinesIsDiscarded) {
  StartWithoutSlots({.slots = 2, .slot_bytes = 200'000});
  DecliningSink sink;
  recv_->SetSink(&sink);
  const std::vector<std::byte> payload = Payload(1, 200'000);
  SliceNumber landed = 0;
  ASSERT_TRUE(RunUntil([&] {
    if (send_->next() < 6 && send_->has_room()) Post(payload, TagOf(send_->next()));
    while (landed < 6 && recv_->Landed(landed) != Landing::kNotYet) {
      EXPECT_EQ(recv_->Landed(landed), Landing::kDiscarded);
      EXPECT_EQ(recv_->Tag(landed), TagOf(landed));
      recv_->Release(landed++);
    }
    return landed == 6;
  }));
  EXPECT_EQ(sink.asked, 6);
  recv_->SetSink(nullptr);
}

TEST_P(TransportContract, WithoutSlotsASinkThatIsSetLaterGetsTheWaitingSlice) {
  for (const size_t bytes : {size_t{100}, size_t{50'000}}) {
    StartWithoutSlots({.slots = 2, .slot_bytes = 50'000});
    const std::vector<std::byte> payload = Payload(1, bytes);
    Post(payload, TagOf(1));
    Settle();
    EXPECT_EQ(recv_->Landed(0), Landing::kNotYet);
    DecliningSink sink;
    recv_->SetSink(&sink);
    ASSERT_TRUE(RunUntil([&] { return recv_->Landed(0) == Landing::kDiscarded; }));
    EXPECT_EQ(sink.asked, 1);
    recv_->SetSink(nullptr);
  }
}

TEST_P(TransportContract, WithoutSlotsAWaitingSliceArrivesOverTheNextConnection) {
  StartWithoutSlots({.slots = 2, .slot_bytes = 50'000});
  const std::vector<std::byte> payload = Payload(1, 50'000);
  Post(payload, TagOf(1));
  Settle();
  Attach();
  Settle();
  std::vector<std::byte> output(50'000, kFill);
  const RegionSpan all = SpanOf(output);
  EXPECT_TRUE(recv_->Expect(0, all, TagOf(1)));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(0) == Landing::kDirect; }));
  EXPECT_EQ(output, payload);
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_SLOTLESS_CONTRACT_H_
