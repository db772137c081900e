// The contract of stream transports when connections break and peers misbehave. The programs
// include it after transport_contract.h.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_FAILURE_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_FAILURE_CONTRACT_H_

#include "tests/contract/transport_contract.h"

namespace mccs {

// Connections break after any number of bytes, at either end; no slice is lost, duplicated or torn.
TEST_P(TransportContract, ALaneResumesOverANewConnection) {
  constexpr SliceNumber kSlices = 40;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Start({.slots = 2 + static_cast<uint32_t>(seed % 4), .slot_bytes = 30'000}, seed);
    std::mt19937_64 random(seed);
    std::vector<std::vector<std::byte>> payloads, there(kSlices);
    for (uint64_t n = 0; n < kSlices; ++n) {
      payloads.push_back(Payload(n + seed, random() % 4 == 0 ? random() % 100 : random() % 30'001));
      there[n].resize(payloads[n].size());
    }
    auto attach = [&] {
      TransportWorld::Ends ends = world_->Connect();
      auto budget = [&] { return random() % 3 == 0 ? random() % 200 : random() % 300'000; };
      send_->Attach(std::make_unique<CutConnection>(std::move(ends.sender), budget()));
      recv_->Attach(std::make_unique<CutConnection>(std::move(ends.receiver), budget()));
    };
    attach();
    SliceNumber landed = 0, expected = 0;
    int attachments = 0;
    ASSERT_TRUE(RunUntil([&] {
      EXPECT_NE(send_->status().code(), absl::StatusCode::kDataLoss) << send_->status();
      EXPECT_NE(recv_->status().code(), absl::StatusCode::kDataLoss) << recv_->status();
      if (!send_->status().ok() || !recv_->status().ok()) {
        if (++attachments < 1000) attach();
      }
      if (send_->next() < kSlices) Post(payloads[send_->next()], TagOf(send_->next()));
      if (random() % 3 == 0 && expected < kSlices) {
        const MemRef all{.data = there[expected].data(), .bytes = there[expected].size()};
        if (recv_->Expect(expected, {&all, 1}, TagOf(expected)) || expected < landed) ++expected;
      }
      while (landed < kSlices && recv_->Landed(landed) != Landing::kNotYet) {
        EXPECT_EQ(recv_->Tag(landed), TagOf(landed));
        if (recv_->Landed(landed) == Landing::kDirect) {
          EXPECT_EQ(there[landed], payloads[landed]) << "slice " << landed;
        } else {
          EXPECT_TRUE(SlotHolds(landed, payloads[landed])) << "slice " << landed;
        }
        recv_->Release(landed++);
      }
      return send_->acknowledged() == kSlices;
    }));
    EXPECT_EQ(landed, kSlices);
    EXPECT_EQ(recv_->counters().slices, kSlices);
    EXPECT_GT(recv_->counters().reconnects, 0u);
    ExpectGuardsUntouched();
    if (HasFailure()) return;
  }
}

TEST_P(TransportContract, ALostPeerStallsTheLaneAndIsNamed) {
  Start({.slots = 2, .slot_bytes = 100});
  Settle();
  const std::string name = ToString(recv_->remote());
  send_.reset();
  for (int i = 0; i < 10'000 && recv_->status().ok(); ++i) {
    recv_->Poll();
    world_->Advance();
  }
  EXPECT_EQ(recv_->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(recv_->status().message().find(name), absl::string_view::npos) << recv_->status();
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_FAILURE_CONTRACT_H_
