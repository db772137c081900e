// The contract of Transport, as tests: slices, slots and expected memory. A program includes this
// file and its companions, defines a world and instantiates TransportContract with it.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "tests/contract/transport_fixture.h"
#include "tests/unit/device/process_memory.h"

namespace mccs {

TEST_P(TransportContract, SlicesArriveInOrderWithTagAndBytes) {
  Start({.slots = 4, .slot_bytes = 100'000});
  std::mt19937_64 random(7);
  std::vector<std::vector<std::byte>> payloads;
  for (uint64_t n = 0; n < 60; ++n) payloads.push_back(Payload(n, random() % 100'001));
  SliceNumber landed = 0;
  ASSERT_TRUE(RunUntil([&] {
    while (send_->next() < payloads.size()) {
      const SliceNumber n = send_->next();
      const std::optional<SliceNumber> posted = Post(payloads[n], TagOf(n + 1000));
      if (!posted.has_value()) break;
      EXPECT_EQ(*posted, n);
    }
    while (landed < payloads.size() && recv_->Landed(landed) != Landing::kNotYet) {
      EXPECT_EQ(recv_->Landed(landed), Landing::kInSlot);
      EXPECT_EQ(recv_->Tag(landed), TagOf(landed + 1000));
      EXPECT_TRUE(SlotHolds(landed, payloads[landed])) << "slice " << landed;
      recv_->Release(landed++);
    }
    return send_->acknowledged() == payloads.size();
  }));
  EXPECT_TRUE(send_->status().ok()) << send_->status();
  EXPECT_EQ(send_->counters().slices, payloads.size());
  EXPECT_EQ(recv_->counters().slices, payloads.size());
  EXPECT_EQ(send_->counters().payload_bytes, recv_->counters().payload_bytes);
  EXPECT_EQ(send_->counters().reconnects, 0u);
  ExpectGuardsUntouched();
}

TEST_P(TransportContract, ASenderHasCreditForTheSlotsOnly) {
  Start({.slots = 3, .slot_bytes = 64});
  const std::vector<std::byte> payload = Payload(1, 64);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Post(payload, {}).has_value());
  EXPECT_FALSE(Post(payload, {}).has_value());
  ASSERT_TRUE(RunUntil([&] { return send_->acknowledged() == 3; }));
  // Acknowledged is not released: the receiver still owns the slots.
  EXPECT_FALSE(Post(payload, {}).has_value());
  recv_->Release(0);
  ASSERT_TRUE(RunUntil([&] { return Post(payload, {}).has_value(); }));
  Settle();
  EXPECT_FALSE(Post(payload, {}).has_value());
}

TEST_P(TransportContract, CreditGrowsWithTheSmallestSliceNotReleased) {
  Start({.slots = 4, .slot_bytes = 64});
  for (uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(Post(Payload(n, 64), TagOf(n)).has_value());
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(3) != Landing::kNotYet; }));
  recv_->Release(2);
  recv_->Release(1);
  Settle();
  EXPECT_FALSE(Post(Payload(4, 64), {}).has_value());
  EXPECT_TRUE(SlotHolds(0, Payload(0, 64)));
  EXPECT_TRUE(SlotHolds(3, Payload(3, 64)));
  recv_->Release(0);
  SliceNumber posted = 4;
  ASSERT_TRUE(RunUntil([&] {
    if (Post(Payload(posted, 64), TagOf(posted)).has_value()) ++posted;
    return posted == 7;
  }));
  Settle();
  EXPECT_FALSE(Post(Payload(7, 64), {}).has_value());
  EXPECT_TRUE(SlotHolds(3, Payload(3, 64)));
  EXPECT_TRUE(SlotHolds(6, Payload(6, 64)));
}

TEST_P(TransportContract, SlotsAreUnusedBeforeASliceArrivesAndAfterItsRelease) {
  Start({.slots = 4, .slot_bytes = 64});
  const auto is_unused = [&](SliceNumber n) {
    const std::vector<RegionSpan> unused = recv_->UnusedSlots();
    return std::any_of(unused.begin(), unused.end(),
                       [&](const RegionSpan& slot) { return slot.address() == Slot(n); });
  };
  if (world_->transport().pins_memory()) {
    EXPECT_TRUE(recv_->UnusedSlots().empty()) << "the NIC has their pages";
    return;
  }
  EXPECT_EQ(recv_->UnusedSlots().size(), 4u);
  for (uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(Post(Payload(n, 64), TagOf(n)).has_value());
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(2) != Landing::kNotYet; }));
  ASSERT_EQ(recv_->UnusedSlots().size(), 1u);
  EXPECT_EQ(recv_->UnusedSlots()[0].bytes, 64u);
  for (uint64_t n = 0; n < 4; ++n) EXPECT_EQ(is_unused(n), n == 3) << "slice " << n;
  recv_->Release(0);
  EXPECT_TRUE(is_unused(4)) << "the slot of slice 0";
  EXPECT_FALSE(is_unused(1));
}

TEST_P(TransportContract, OldestTagIsOfTheOldestUnreleasedSlice) {
  Start({.slots = 4, .slot_bytes = 64});
  EXPECT_EQ(recv_->OldestTag(), std::nullopt);
  for (uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(Post(Payload(n, 64), TagOf(n)).has_value());
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(2) != Landing::kNotYet; }));
  EXPECT_EQ(recv_->OldestTag(), TagOf(0));
  recv_->Release(1);
  EXPECT_EQ(recv_->OldestTag(), TagOf(0));
  recv_->Release(0);
  EXPECT_EQ(recv_->OldestTag(), TagOf(2));
  recv_->Release(2);
  EXPECT_EQ(recv_->OldestTag(), std::nullopt);
}

TEST_P(TransportContract, EmptySlicesCount) {
  Start({.slots = 2, .slot_bytes = 16});
  SliceNumber landed = 0;
  ASSERT_TRUE(RunUntil([&] {
    if (send_->next() < 9) {
      absl::StatusOr<std::optional<SliceNumber>> posted = send_->Post({}, TagOf(send_->next()));
      EXPECT_TRUE(posted.ok()) << posted.status();
    }
    if (recv_->Landed(landed) != Landing::kNotYet) {
      EXPECT_EQ(recv_->Bytes(landed), 0u);
      EXPECT_EQ(recv_->Tag(landed), TagOf(landed));
      recv_->Release(landed++);
    }
    return send_->acknowledged() == 9;
  }));
  EXPECT_EQ(landed, 9u);
}

TEST_P(TransportContract, ASliceLongerThanASlotIsRejected) {
  Start({.slots = 2, .slot_bytes = 100});
  const std::vector<std::byte> payload = Payload(0, 101);
  const RegionSpan whole = SpanAt(payload.data(), 101);
  EXPECT_EQ(send_->Post(whole, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(send_->status().ok());
  EXPECT_EQ(send_->next(), 0u);
}

TEST_P(TransportContract, AnExpectedSliceWithAnotherTagOrLengthGoesToItsSlot) {
  Start({.slots = 4, .slot_bytes = 50'000});
  std::vector<std::byte> there(50'000, kFill);
  const RegionSpan all = SpanOf(there);
  const RegionSpan less = SpanAt(there.data(), 100);
  EXPECT_TRUE(recv_->Expect(0, all, TagOf(1)));
  EXPECT_TRUE(recv_->Expect(1, less, TagOf(2)));
  const std::vector<std::byte> a = Payload(0, 50'000), b = Payload(1, 50'000);
  Post(a, TagOf(99));
  Post(b, TagOf(2));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(1) != Landing::kNotYet; }));
  EXPECT_EQ(recv_->Landed(0), Landing::kInSlot);
  EXPECT_EQ(recv_->Landed(1), Landing::kInSlot);
  EXPECT_EQ(recv_->Tag(0), TagOf(99));
  EXPECT_TRUE(SlotHolds(0, a));
  EXPECT_TRUE(SlotHolds(1, b));
  EXPECT_EQ(std::count(there.begin(), there.end(), kFill), 50'000);
}

TEST_P(TransportContract, ExpectIsRejectedAfterArrivalAndBeyondTheSlots) {
  Start({.slots = 2, .slot_bytes = 1000});
  std::vector<std::byte> there(1000);
  const RegionSpan all = SpanOf(there);
  EXPECT_FALSE(recv_->Expect(2, all, TagOf(1)));
  Post(Payload(0, 1000), TagOf(1));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(0) != Landing::kNotYet; }));
  EXPECT_FALSE(recv_->Expect(0, all, TagOf(1)));
  EXPECT_EQ(recv_->Landed(0), Landing::kInSlot);
  EXPECT_TRUE(recv_->Expect(1, all, TagOf(1)));
}

// The receiver may call Expect at any time. The bytes are always where Landed reports them.
TEST_P(TransportContract, ExpectAtAnyTimeIsAcceptedOrRejected) {
  const std::vector<std::byte> payload = Payload(3, 300'000);
  for (int rounds = 0; rounds < 40; ++rounds) {
    SCOPED_TRACE(testing::Message() << rounds << " rounds before Expect");
    Start({.slots = 2, .slot_bytes = 300'000}, /*seed=*/rounds + 1);
    std::vector<std::byte> there(300'000, kFill);
    const RegionSpan all = SpanOf(there);
    Post(payload, TagOf(1));
    for (int i = 0; i < rounds; ++i) {
      send_->Poll();
      world_->Advance();
      recv_->Poll();
    }
    const bool taken = recv_->Expect(0, all, TagOf(1));
    ASSERT_TRUE(RunUntil([&] { return recv_->Landed(0) != Landing::kNotYet; }));
    EXPECT_TRUE(taken || recv_->Landed(0) == Landing::kInSlot);
    if (recv_->Landed(0) == Landing::kDirect) {
      EXPECT_EQ(there, payload);
    } else {
      EXPECT_TRUE(SlotHolds(0, payload));
      EXPECT_EQ(std::count(there.begin(), there.end(), kFill), 300'000);
    }
  }
}

TEST_P(TransportContract, AShortSliceFreesItsSourceAtOnceALongOneWhenDelivered) {
  Start({.slots = 4, .slot_bytes = 100'000});
  std::vector<std::byte> shorter = Payload(0, 8);
  const std::vector<std::byte> longer = Payload(1, 100'000);
  Post(shorter, TagOf(0));
  Post(longer, TagOf(1));
  Post(shorter, TagOf(2));
  EXPECT_EQ(send_->source_free(), 1u);
  EXPECT_EQ(send_->acknowledged(), 0u);
  std::fill(shorter.begin(), shorter.end(), kFill);
  ASSERT_TRUE(RunUntil([&] { return send_->acknowledged() == 3; }));
  EXPECT_EQ(send_->source_free(), 3u);
  EXPECT_TRUE(SlotHolds(0, Payload(0, 8)));
  EXPECT_TRUE(SlotHolds(2, Payload(0, 8)));
}

TEST_P(TransportContract, AReceiverThatDoesNotReleaseOnlyBlocksTheSender) {
  Start({.slots = 2, .slot_bytes = 200'000});
  const std::vector<std::byte> payload = Payload(5, 200'000);
  SliceNumber posted = 0;
  for (int i = 0; i < 50; ++i) {
    if (Post(payload, TagOf(posted)).has_value()) ++posted;
    Settle();
  }
  EXPECT_EQ(posted, 2u);
  EXPECT_TRUE(send_->status().ok());
  SliceNumber landed = 0;
  ASSERT_TRUE(RunUntil([&] {
    if (posted < 20 && Post(payload, TagOf(posted)).has_value()) ++posted;
    if (recv_->Landed(landed) != Landing::kNotYet) recv_->Release(landed++);
    return landed == 20;
  }));
}

TEST_P(TransportContract, ALaneWithoutAConnectionAcceptsSlicesWithinItsCredit) {
  Start({.slots = 2, .slot_bytes = 100});
  MakeLanes();
  EXPECT_EQ(send_->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(recv_->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(send_->local(), Endpoint{});
  const std::vector<std::byte> payload = Payload(0, 100);
  EXPECT_TRUE(Post(payload, {}).has_value());
  EXPECT_TRUE(Post(payload, {}).has_value());
  EXPECT_FALSE(Post(payload, {}).has_value());
  EXPECT_FALSE(send_->Poll());
  Attach();
  EXPECT_TRUE(send_->status().ok());
  EXPECT_NE(send_->local().port, 0);
  EXPECT_EQ(send_->local(), recv_->remote());
  ASSERT_TRUE(RunUntil([&] { return send_->acknowledged() == 2; }));
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_CONTRACT_H_
