// The contract of Transport for the places of slices: memory that the receiver expects them in, and
// regions that end.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_PLACES_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_PLACES_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/contract/transport_fixture.h"

namespace mccs {

TEST_P(TransportContract, ASliceThatIsExpectedIsNotCopied) {
  constexpr size_t kBytes = 50'000;
  Start({.slots = 4, .slot_bytes = kBytes});
  send_->WaitForPlaces();
  std::vector<std::vector<std::byte>> payloads, there(12);
  for (uint64_t n = 0; n < there.size(); ++n) {
    payloads.push_back(Payload(n, kBytes));
    there[n].assign(kBytes, kFill);
  }
  SliceNumber landed = 0, expected = 0;
  ASSERT_TRUE(RunUntil([&] {
    if (send_->next() < there.size()) Post(payloads[send_->next()], TagOf(5));
    // Late: some slices wait at their sender, or in the connection.
    const bool takes = expected < there.size() && send_->next() > expected;
    if (takes && recv_->Expect(expected, SpanOf(there[expected]), TagOf(5))) ++expected;
    while (landed < expected && recv_->Landed(landed) != Landing::kNotYet) {
      EXPECT_EQ(recv_->Landed(landed), Landing::kDirect) << "slice " << landed;
      recv_->Release(landed++);
    }
    return landed == there.size();
  }));
  EXPECT_EQ(there, payloads);
  EXPECT_EQ(send_->counters().copied_bytes, 0u);
  EXPECT_EQ(recv_->counters().copied_bytes, 0u);
}

TEST_P(TransportContract, ASliceThatIsExpectedInItsSlotGoesThere) {
  Start({.slots = 4, .slot_bytes = 50'000});
  send_->WaitForPlaces();
  const std::vector<std::byte> payload = Payload(1, 50'000);
  std::vector<std::byte> there(50'000, kFill);
  Post(payload, TagOf(1));
  Post(payload, TagOf(1));
  Post(payload, TagOf(1));
  recv_->ExpectInSlot(0);
  EXPECT_TRUE(recv_->Expect(1, SpanOf(there), TagOf(1)));
  recv_->ExpectInSlot(2);
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(2) != Landing::kNotYet; }));
  EXPECT_TRUE(SlotHolds(0, payload));
  EXPECT_EQ(recv_->Landed(1), Landing::kDirect);
  EXPECT_EQ(there, payload);
  EXPECT_TRUE(SlotHolds(2, payload));
}

TEST_P(TransportContract, TheTagOfASliceThatNobodyExpectsIsKnown) {
  Start({.slots = 4, .slot_bytes = 50'000});
  send_->WaitForPlaces();
  Post(Payload(1, 50'000), TagOf(6));
  EXPECT_TRUE(RunUntil([&] { return recv_->OldestTag() == TagOf(6); }));
}

TEST_P(TransportContract, ASliceOfAnotherCallDoesNotTakeAPlace) {
  Start({.slots = 4, .slot_bytes = 50'000});
  send_->WaitForPlaces();
  std::vector<std::byte> there(50'000, kFill);
  EXPECT_TRUE(recv_->Expect(0, SpanOf(there), TagOf(1)));
  EXPECT_TRUE(recv_->Expect(1, SpanAt(there.data(), 40'000), TagOf(2)));
  const std::vector<std::byte> payload = Payload(1, 50'000);
  Post(payload, TagOf(9));
  Post(payload, TagOf(2));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(1) != Landing::kNotYet; }));
  EXPECT_EQ(recv_->Tag(0), TagOf(9));
  EXPECT_TRUE(SlotHolds(0, payload));
  EXPECT_TRUE(SlotHolds(1, payload));
  EXPECT_EQ(std::ranges::count(there, kFill), 50'000);
}

TEST_P(TransportContract, ShortSlicesWaitForNoPlace) {
  Start({.slots = 4, .slot_bytes = 50'000});
  send_->WaitForPlaces();
  const std::vector<std::byte> payload = Payload(1, 4'000);
  Post(payload, TagOf(1));
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(0) != Landing::kNotYet; }));
  EXPECT_TRUE(SlotHolds(0, payload));
}

TEST_P(TransportContract, AnEqualTagTravelsOnce) {
  constexpr uint64_t kSlices = 8;
  constexpr size_t kBytes = 64;
  const auto bytes_sent = [&](bool equal_tags) {
    Start({.slots = kSlices, .slot_bytes = kBytes});
    for (uint64_t n = 0; n < kSlices; ++n) {
      Post(Payload(n, kBytes), TagOf(equal_tags ? 1 : n));
    }
    EXPECT_TRUE(RunUntil([&] { return send_->acknowledged() == kSlices; }));
    for (uint64_t n = 0; n < kSlices; ++n) {
      EXPECT_EQ(recv_->Tag(n), TagOf(equal_tags ? 1 : n));
      EXPECT_TRUE(SlotHolds(n, Payload(n, kBytes)));
    }
    return send_->moved_bytes();
  };
  const uint64_t several = bytes_sent(false);
  const uint64_t one = bytes_sent(true);
  EXPECT_GE(several, one + (kSlices - 1) * sizeof(SliceTag));
}

// Slices of all kinds over connections that break anywhere: each lands once, where it belongs.
TEST_P(TransportContract, ExpectedSlicesSurviveBrokenConnections) {
  constexpr SliceNumber kSlices = 30;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Start({.slots = 2 + static_cast<uint32_t>(seed % 3), .slot_bytes = 20'000}, seed);
    send_->WaitForPlaces();
    const auto attach = [&] {
      TransportWorld::Ends ends = world_->Connect();
      const auto budget = [&] { return random() % 3 == 0 ? random() % 300 : random() % 200'000; };
      send_->Attach(std::make_unique<CutConnection>(std::move(ends.sender), budget()));
      recv_->Attach(std::make_unique<CutConnection>(std::move(ends.receiver), budget()));
    };
    attach();
    std::vector<std::vector<std::byte>> payloads, there(kSlices);
    std::vector<bool> stays;
    for (uint64_t n = 0; n < kSlices; ++n) {
      const uint64_t bytes = random() % 4 == 0 ? random() % 100 : random() % 20'001;
      payloads.push_back(Payload(seed + n, bytes));
      there[n].assign(bytes, kFill);
      stays.push_back(random() % 3 == 0);
    }
    SliceNumber landed = 0, decided = 0;
    int attachments = 0;
    ASSERT_TRUE(RunUntil([&] {
      EXPECT_NE(send_->state(), LaneState::kFailed) << send_->status();
      EXPECT_NE(recv_->state(), LaneState::kFailed) << recv_->status();
      const bool stalled = !send_->status().ok() || !recv_->status().ok();
      if (stalled && ++attachments < 1000) attach();
      if (send_->next() < kSlices && send_->has_room()) {
        const SliceNumber n = send_->next();
        Post(payloads[n], TagOf(n / 4));
      }
      if (decided < std::min<uint64_t>(kSlices, landed + shape_.slots)) {
        if (stays[decided]) {
          recv_->ExpectInSlot(decided);
        } else {
          recv_->Expect(decided, SpanOf(there[decided]), TagOf(decided / 4));
        }
        ++decided;
      }
      while (landed < decided && recv_->Landed(landed) != Landing::kNotYet) {
        EXPECT_EQ(recv_->Tag(landed), TagOf(landed / 4));
        if (recv_->Landed(landed) == Landing::kDirect) {
          EXPECT_FALSE(stays[landed]);
          EXPECT_EQ(there[landed], payloads[landed]) << "slice " << landed;
        } else {
          EXPECT_TRUE(SlotHolds(landed, payloads[landed])) << "slice " << landed;
        }
        recv_->Release(landed++);
      }
      return landed == kSlices && send_->acknowledged() == kSlices;
    }));
    ExpectGuardsUntouched();
    if (HasFailure()) return;
  }
}

TEST_P(TransportContract, ARegionThatLanesHaveUsedCanEnd) {
  constexpr size_t kBytes = 50'000;
  Start({.slots = 4, .slot_bytes = kBytes});
  send_->WaitForPlaces();
  const std::vector<std::byte> payload = Payload(1, kBytes);
  for (SliceNumber n = 0; n < 5; ++n) {
    auto source = std::make_shared<OwnedMemory>(payload);
    auto there = std::make_shared<OwnedMemory>(std::vector<std::byte>(kBytes, kFill));
    EXPECT_TRUE(recv_->Expect(n, WholeOf(*there), TagOf(1)));
    Post(*send_, WholeOf(*source), TagOf(1));
    ASSERT_TRUE(RunUntil(
        [&] { return recv_->Landed(n) != Landing::kNotYet && send_->source_free() == n + 1; }));
    EXPECT_EQ(recv_->Landed(n), Landing::kDirect);
    EXPECT_TRUE(std::ranges::equal(there->span(), payload));
    recv_->Release(n);
    const std::weak_ptr<OwnedMemory> of_source = source, of_there = there;
    world_->sender().Forget(*of_source.lock(), std::move(source));
    world_->transport().Forget(*of_there.lock(), std::move(there));
    EXPECT_TRUE(RunUntil([&] { return of_source.expired() && of_there.expired(); }));
  }
  EXPECT_EQ(send_->counters().reconnects, 0u);
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_PLACES_CONTRACT_H_
