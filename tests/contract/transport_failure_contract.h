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

// One end of a lane, controlled by the test, which may send arbitrary bytes.
class MisbehavingPeer {
 public:
  MisbehavingPeer(TransportWorld& world, std::unique_ptr<Connection> connection)
      : world_(world), connection_(std::move(connection)) {}

  void Send(const void* bytes, size_t size) {
    size_t sent = 0;
    for (int i = 0; i < 100'000 && sent < size; ++i) {
      const iovec rest{.iov_base = static_cast<std::byte*>(const_cast<void*>(bytes)) + sent,
                       .iov_len = size - sent};
      absl::StatusOr<size_t> wrote = connection_->Write({&rest, 1});
      if (!wrote.ok()) return;
      sent += *wrote;
      world_.Advance();
    }
  }

 private:
  TransportWorld& world_;
  std::unique_ptr<Connection> connection_;
};

// Invalid input for a receiver of 2 slots of 100 bytes, and the expected error.
struct InvalidInput {
  std::vector<wire::SliceHeader> headers;  // each followed by its payload
  std::string expected_error;
};

TEST_P(TransportContract, AReceiverFailsWhenThePeerBreaksTheProtocol) {
  using wire::SliceHeader;
  const SliceHeader good{.magic = wire::kSliceMagic, .bytes = 100, .number = 0, .tag = {}};
  SliceHeader magic = good, number = good, size = good, second = good, third = good;
  magic.magic = 0x20544547;
  number.number = 1;
  size.bytes = 101;
  second.number = 1;
  third.number = 2;
  const std::vector<InvalidInput> inputs = {{{magic}, "invalid slice header"},
                                            {{number}, "slice 1 arrived, expected slice 0"},
                                            {{size}, "has 101 bytes, more than a slot of 100"},
                                            {{good, good}, "slice 0 arrived, expected slice 1"},
                                            {{good, second, third}, "credit for only 2 slices"}};
  for (const InvalidInput& input : inputs) {
    SCOPED_TRACE(input.expected_error);
    Start({.slots = 2, .slot_bytes = 100});
    TransportWorld::Ends ends = world_->Connect();
    recv_->Attach(std::move(ends.receiver));
    const std::string name = ToString(recv_->remote());
    MisbehavingPeer peer(*world_, std::move(ends.sender));
    for (const SliceHeader& header : input.headers) {
      peer.Send(&header, sizeof(header));
      const std::vector<std::byte> payload(header.bytes, std::byte{1});
      peer.Send(payload.data(), payload.size());
    }
    for (int i = 0; i < 10'000 && recv_->status().ok(); ++i) {
      recv_->Poll();
      world_->Advance();
    }
    EXPECT_EQ(recv_->status().code(), absl::StatusCode::kDataLoss) << recv_->status();
    EXPECT_NE(recv_->status().message().find(input.expected_error), absl::string_view::npos)
        << recv_->status();
    EXPECT_NE(recv_->status().message().find(name), absl::string_view::npos) << recv_->status();
    ExpectGuardsUntouched();
    Attach();  // a failed lane accepts no other connection
    EXPECT_EQ(recv_->status().code(), absl::StatusCode::kDataLoss);
    EXPECT_FALSE(recv_->Poll());
  }
}

TEST_P(TransportContract, ASenderFailsWhenThePeerBreaksTheProtocol) {
  using wire::AckFrame;
  const AckFrame resume{.magic = wire::kResumeMagic,
                        .slots = 2,
                        .slot_bytes = 100,
                        .reserved = 0,
                        .delivered = 0,
                        .credit = 2};
  auto ack = [&](uint64_t delivered, uint64_t credit) {
    AckFrame frame = resume;
    frame.magic = wire::kAckMagic;
    frame.delivered = delivered;
    frame.credit = credit;
    return frame;
  };
  AckFrame shape = resume, ahead = resume;
  shape.slots = 3;
  ahead.delivered = 1;
  const std::vector<std::pair<std::vector<AckFrame>, std::string>> inputs = {
      {{ack(0, 2)}, "not a resume frame"},
      {{shape}, "the peer has 3 slots of 100 bytes, this end 2 of 100"},
      {{ahead}, "acknowledgement of 1 slices after 0, of 0 sent"},
      {{resume, resume}, "not an ack frame"},
      {{resume, ack(2, 2)}, "acknowledgement of 2 slices after 0, of 1 sent"},
      {{resume, ack(1, 2), ack(0, 2)}, "acknowledgement of 0 slices after 1"},
      {{resume, ack(1, 4)}, "credit: from 2 to 4"},
      {{resume, ack(1, 3), ack(1, 2)}, "credit: from 3 to 2"},
  };
  for (const auto& [frames, expected_error] : inputs) {
    SCOPED_TRACE(expected_error);
    Start({.slots = 2, .slot_bytes = 100});
    TransportWorld::Ends ends = world_->Connect();
    send_->Attach(std::move(ends.sender));
    const std::string name = ToString(send_->remote());
    MisbehavingPeer peer(*world_, std::move(ends.receiver));
    Post(Payload(0, 100), {});
    bool first = true;
    for (const AckFrame& frame : frames) {
      peer.Send(&frame, sizeof(frame));
      // The slice is sent after the resume frame, so that it can be acknowledged.
      for (int i = 0; i < (first ? 2000 : 0); ++i) {
        send_->Poll();
        world_->Advance();
      }
      first = false;
    }
    for (int i = 0; i < 10'000 && send_->status().ok(); ++i) {
      send_->Poll();
      world_->Advance();
    }
    EXPECT_EQ(send_->status().code(), absl::StatusCode::kDataLoss) << send_->status();
    EXPECT_NE(send_->status().message().find(expected_error), absl::string_view::npos)
        << send_->status();
    EXPECT_NE(send_->status().message().find(name), absl::string_view::npos) << send_->status();
    EXPECT_FALSE(send_->Post({}, {}).ok());
  }
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_FAILURE_CONTRACT_H_
