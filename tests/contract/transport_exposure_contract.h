// The contract of Transport for memory that a receiver exposes: slices are written to it without an
// Expect and without a header of their own, and nothing else is written.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_EXPOSURE_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_EXPOSURE_CONTRACT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/contract/transport_fixture.h"
#include "tests/unit/mentions.h"

namespace mccs {

TEST_P(TransportContract, AWriteLandsWhereItsSenderChooses) {
  Start({.slots = 4, .slot_bytes = 100'000});
  Exposed& output = Expose(7, 1'000'000);
  const std::optional<RemoteRegion> found = AwaitExposed(7);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->key, output.key);
  EXPECT_EQ(found->bytes, 1'000'000u);
  // Short and long slices, an empty one, and one at the very end.
  const std::vector<std::pair<uint64_t, size_t>> parts = {
      {0, 100'000}, {500'000, 8}, {999'999, 1}, {300'000, 0}, {600'001, 99'999}, {900'000, 99'000}};
  std::vector<std::vector<std::byte>> payloads;
  for (const auto& [offset, bytes] : parts) payloads.push_back(Payload(offset, bytes));
  SliceNumber landed = 0;
  ASSERT_TRUE(RunUntil([&] {
    const SliceNumber n = send_->next();
    if (n < parts.size() && send_->has_room()) {
      Post(*send_, payloads[n], TagOf(5), RemoteTarget{found->key, parts[n].first});
    }
    while (landed < parts.size() && recv_->Landed(landed) != Landing::kNotYet) {
      EXPECT_EQ(recv_->Landed(landed), Landing::kWritten);
      EXPECT_EQ(recv_->Tag(landed), TagOf(5));
      EXPECT_EQ(recv_->Bytes(landed), parts[landed].second);
      recv_->Release(landed++);
    }
    return send_->acknowledged() == parts.size();
  }));
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_TRUE(output.Holds(parts[i].first, payloads[i])) << "part " << i;
  }
  EXPECT_TRUE(output.GuardsUntouched());
  EXPECT_EQ(std::count(slots_.begin(), slots_.end(), kFill), static_cast<ptrdiff_t>(slots_.size()))
      << "no slot was used";
}

TEST_P(TransportContract, AWriteIgnoresExpectedMemory) {
  Start({.slots = 2, .slot_bytes = 50'000});
  Exposed& output = Expose(1, 50'000);
  std::vector<std::byte> expected(50'000, kFill);
  const RegionSpan all = SpanOf(expected);
  EXPECT_TRUE(recv_->Expect(0, all, TagOf(1)));
  ASSERT_TRUE(AwaitExposed(1).has_value());
  const std::vector<std::byte> payload = Payload(3, 50'000);
  Post(*send_, payload, TagOf(1), RemoteTarget{output.key, 0});
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(0) != Landing::kNotYet; }));
  EXPECT_EQ(recv_->Landed(0), Landing::kWritten);
  EXPECT_TRUE(output.Holds(0, payload));
  EXPECT_EQ(std::count(expected.begin(), expected.end(), kFill), 50'000);
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

TEST_P(TransportContract, AnExposureIsFoundByItsNameUntilItIsWithdrawn) {
  Start({.slots = 2, .slot_bytes = 1'000});
  EXPECT_EQ(send_->FindExposed(ExposureName(1)), std::nullopt);
  Exposed& first = Expose(1, 1'000);
  Exposed& second = Expose(2, 500);
  EXPECT_NE(first.key, second.key);
  ASSERT_TRUE(AwaitExposed(1).has_value());
  ASSERT_TRUE(AwaitExposed(2).has_value());
  EXPECT_EQ(AwaitExposed(2)->bytes, 500u);
  recv_->Withdraw(first.key);
  ASSERT_TRUE(RunUntil([&] { return !recv_->IsAccessible(first.key); }));
  ASSERT_TRUE(RunUntil([&] { return !send_->FindExposed(ExposureName(1)).has_value(); }));
  EXPECT_TRUE(send_->FindExposed(ExposureName(2)).has_value());
  const std::vector<std::byte> payload = Payload(1, 100);
  const RegionSpan piece = SpanOf(payload);
  EXPECT_EQ(send_->PostTo({first.key, 0}, piece, TagOf(1)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(send_->status().ok());
  Exposed& again = Expose(1, 1'000);
  EXPECT_NE(again.key, first.key) << "a key is used once";
  ASSERT_TRUE(RunUntil([&] {
    const auto found = send_->FindExposed(ExposureName(1));
    return found.has_value() && found->key == again.key;
  }));
  EXPECT_TRUE(Post(*send_, payload, TagOf(1), RemoteTarget{again.key, 900}).has_value());
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(0) == Landing::kWritten; }));
  EXPECT_TRUE(again.Holds(900, payload));
  EXPECT_TRUE(first.Untouched());
}

TEST_P(TransportContract, ExposuresAreKnownOverTheNextConnection) {
  StartWithoutConnection({.slots = 2, .slot_bytes = 1'000});
  Exposed& before = Expose(1, 1'000);  // before the first connection
  Exposed& gone = Expose(2, 1'000);
  Attach();
  ASSERT_TRUE(AwaitExposed(1).has_value());
  ASSERT_TRUE(AwaitExposed(2).has_value());
  recv_->Withdraw(gone.key);  // the news is lost with the connection
  Exposed& late = Expose(3, 1'000);
  Attach();
  EXPECT_EQ(send_->FindExposed(ExposureName(1)), std::nullopt);
  ASSERT_TRUE(AwaitExposed(1).has_value());
  EXPECT_EQ(AwaitExposed(1)->key, before.key);
  ASSERT_TRUE(AwaitExposed(3).has_value());
  EXPECT_EQ(send_->FindExposed(ExposureName(2)), std::nullopt);
  const std::vector<std::byte> payload = Payload(1, 500);
  Post(*send_, payload, TagOf(1), RemoteTarget{before.key, 500});
  Post(*send_, payload, TagOf(1), RemoteTarget{late.key, 0});
  ASSERT_TRUE(RunUntil([&] { return recv_->Landed(1) == Landing::kWritten; }));
  EXPECT_TRUE(before.Holds(500, payload));
  EXPECT_TRUE(late.Holds(0, payload));
}

TEST_P(TransportContract, ASenderRejectsWritesBeyondExposedMemory) {
  Start({.slots = 2, .slot_bytes = 1'000});
  Exposed& output = Expose(1, 1'000);
  ASSERT_TRUE(AwaitExposed(1).has_value());
  const std::vector<std::byte> payload = Payload(1, 100);
  const RegionSpan piece = SpanOf(payload);
  for (const uint64_t offset : {uint64_t{901}, uint64_t{1'001}, ~uint64_t{0}, ~uint64_t{0} - 99}) {
    EXPECT_EQ(send_->PostTo({output.key, offset}, piece, TagOf(1)).status().code(),
              absl::StatusCode::kOutOfRange)
        << offset;
  }
  EXPECT_EQ(send_->next(), 0u);
  EXPECT_TRUE(send_->status().ok());
}

TEST_P(TransportContract, ExposuresAreLimited) {
  Start({.slots = 2, .slot_bytes = 1'000});
  Exposed& output = Expose(0, 1'000);
  const RegionSpan memory = WholeOf(*output.memory);
  EXPECT_EQ(recv_->Expose(ExposureName(0), memory).status().code(),
            absl::StatusCode::kAlreadyExists);
  for (uint64_t name = 1; name < kMaxExposures; ++name) {
    ASSERT_TRUE(recv_->Expose(ExposureName(name), memory).ok());
  }
  EXPECT_EQ(recv_->Expose(ExposureName(kMaxExposures), memory).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(AwaitExposed(kMaxExposures - 1).has_value());
  recv_->Withdraw(output.key);
  EXPECT_TRUE(recv_->Expose(ExposureName(kMaxExposures), memory).ok());
  EXPECT_TRUE(AwaitExposed(kMaxExposures).has_value());
}

// The sender has not learnt of the withdrawal when it posts. Where a NIC ends the access, the slice
// may arrive before that.
TEST_P(TransportContract, AWriteAfterWithdrawalEndsTheLaneAndTouchesNothing) {
  int ended = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Start({.slots = 2, .slot_bytes = 50'000}, seed);
    Exposed& output = Expose(1, 50'000);
    ASSERT_TRUE(AwaitExposed(1).has_value());
    recv_->Withdraw(output.key);
    const bool accessible = recv_->IsAccessible(output.key);
    const std::vector<std::byte> payload = Payload(1, 50'000);
    Post(*send_, payload, TagOf(1), RemoteTarget{output.key, 0});
    ASSERT_TRUE(RunUntil([&] {
      return recv_->state() == LaneState::kFailed || recv_->Landed(0) != Landing::kNotYet;
    }));
    if (recv_->state() != LaneState::kFailed) {
      EXPECT_TRUE(accessible);
      EXPECT_TRUE(output.GuardsUntouched());
      continue;
    }
    ++ended;
    EXPECT_EQ(recv_->status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(recv_->status().message(), Mentions("slice 0", "no memory with key"));
    EXPECT_TRUE(accessible || output.Untouched());
    EXPECT_FALSE(recv_->Expose(ExposureName(2), WholeOf(*output.memory)).ok());
  }
  EXPECT_GT(ended, 0);
}

TEST_P(TransportContract, WithdrawalDuringAWriteEndsTheLaneAndTheAccess) {
  constexpr size_t kBytes = 4'000'000;
  Start({.slots = 2, .slot_bytes = kBytes});
  Exposed& output = Expose(1, kBytes);
  ASSERT_TRUE(AwaitExposed(1).has_value());
  const std::vector<std::byte> payload = Payload(1, kBytes);
  Post(*send_, payload, TagOf(1), RemoteTarget{output.key, 0});
  ASSERT_TRUE(RunUntil([&] { return output.data()[0] == payload[0]; }));
  ASSERT_EQ(recv_->Landed(0), Landing::kNotYet) << "the payload is too short for this test";
  recv_->Withdraw(output.key);
  ASSERT_TRUE(RunUntil([&] { return !recv_->IsAccessible(output.key); }));
  std::fill_n(output.data(), kBytes, kFill);
  Settle();
  EXPECT_TRUE(output.Untouched());
  // A NIC may complete the slice before it ends the access.
  if (recv_->state() == LaneState::kReady && recv_->Landed(0) == Landing::kWritten) return;
  ASSERT_TRUE(RunUntil([&] { return recv_->state() == LaneState::kFailed; }));
  EXPECT_THAT(recv_->status().message(), Mentions("slice 0", "withdrew"));
  EXPECT_TRUE(output.Untouched());
}

TEST_P(TransportContract, AKeyIsUnknownOnOtherLanes) {
  Start({.slots = 2, .slot_bytes = 1'000});
  LanePair& other = AddLane(ChannelId(1));
  Exposed& here = Expose(1, 1'000);
  Exposed& there = Expose(*other.recv, 1, 1'000);
  EXPECT_NE(here.key, there.key);
  ASSERT_TRUE(AwaitExposed(1).has_value());
  const std::vector<std::byte> payload = Payload(1, 100);
  const RegionSpan piece = SpanOf(payload);
  EXPECT_EQ(send_->PostTo({there.key, 0}, piece, TagOf(1)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Slices of all kinds over connections that break anywhere: each lands once, where it belongs.
TEST_P(TransportContract, WritesAndOtherSlicesSurviveBrokenConnections) {
  constexpr SliceNumber kSlices = 30;
  constexpr uint64_t kOutput = 100'000;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Start({.slots = 2 + static_cast<uint32_t>(seed % 3), .slot_bytes = 20'000}, seed);
    const auto attach = [&] {
      TransportWorld::Ends ends = world_->Connect();
      const auto budget = [&] { return random() % 3 == 0 ? random() % 300 : random() % 200'000; };
      send_->Attach(std::make_unique<CutConnection>(std::move(ends.sender), budget()));
      recv_->Attach(std::make_unique<CutConnection>(std::move(ends.receiver), budget()));
    };
    attach();
    Exposed& output = Expose(9, kOutput);
    struct Slice {
      std::vector<std::byte> payload;
      SliceTag tag;
      std::optional<RemoteTarget> target;
    };
    std::vector<Slice> posted;
    uint64_t offset = 0;
    SliceNumber landed = 0;
    int attachments = 0;
    ASSERT_TRUE(RunUntil([&] {
      EXPECT_NE(send_->state(), LaneState::kFailed) << send_->status();
      EXPECT_NE(recv_->state(), LaneState::kFailed) << recv_->status();
      const bool stalled = !send_->status().ok() || !recv_->status().ok();
      if (stalled && ++attachments < 1000) attach();
      if (posted.size() < kSlices && send_->has_room()) {
        const uint64_t bytes = random() % 4 == 0 ? random() % 100 : random() % 20'001;
        Slice slice{.payload = Payload(seed + posted.size(), bytes),
                    .tag = TagOf(random() % 2),
                    .target = std::nullopt};
        const auto found = send_->FindExposed(ExposureName(9));
        if (found.has_value() && random() % 3 > 0 && bytes <= kOutput - offset) {
          slice.target = RemoteTarget{found->key, offset};
          offset += bytes;
        }
        const Slice& kept = posted.emplace_back(std::move(slice));
        Post(*send_, kept.payload, kept.tag, kept.target);
      }
      while (landed < posted.size() && recv_->Landed(landed) != Landing::kNotYet) {
        const Slice& slice = posted[landed];
        EXPECT_EQ(recv_->Tag(landed), slice.tag);
        if (slice.target.has_value()) {
          EXPECT_EQ(recv_->Landed(landed), Landing::kWritten);
          EXPECT_TRUE(output.Holds(slice.target->offset, slice.payload)) << "slice " << landed;
        } else {
          EXPECT_TRUE(SlotHolds(landed, slice.payload)) << "slice " << landed;
        }
        recv_->Release(landed++);
      }
      return landed == kSlices && send_->acknowledged() == kSlices;
    }));
    EXPECT_TRUE(output.GuardsUntouched());
    ExpectGuardsUntouched();
    if (HasFailure()) return;
  }
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_EXPOSURE_CONTRACT_H_
