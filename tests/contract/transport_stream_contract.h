// The contract of stream transports when connections break, and of streams that wake a Waker when
// they become ready.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_STREAM_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_STREAM_CONTRACT_H_

#include "tests/contract/transport_fixture.h"

namespace mccs {

// Connections break after any number of bytes, at either end; no slice is lost, duplicated or torn.
TEST_P(TransportContract, ALaneResumesOverANewConnection) {
  constexpr SliceNumber kSlices = 40;
  uint64_t reconnects = 0;
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
      } else if (random() % 64 == 0) {
        world_->BreakShared(send_->queues());
      }
      if (send_->next() < kSlices) Post(payloads[send_->next()], TagOf(send_->next()));
      if (random() % 3 == 0 && expected < kSlices) {
        const RegionSpan all = SpanOf(there[expected]);
        if (recv_->Expect(expected, all, TagOf(expected)) || expected < landed) ++expected;
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
    reconnects += recv_->counters().reconnects;
    ExpectGuardsUntouched();
    if (HasFailure()) return;
  }
  EXPECT_GT(reconnects, 60u);
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

class RecordingWaker final : public Waker {
 public:
  void Wake() override { woken = true; }
  bool woken = false;
};

class StreamWakes : public TransportContract {
 protected:
  static constexpr int kMaxTurns = 100'000;

  void SetUp() override { world_ = GetParam().make(/*seed=*/1); }

  // Returns a stream that is open at both ends and has no pending events.
  TransportWorld::Ends Open() {
    TransportWorld::Ends ends = world_->Connect();
    EXPECT_TRUE(AdvanceUntil([&] { return ends.sender->writable(); }));
    DrainEvents();
    return ends;
  }
  void DrainEvents() {
    for (int i = 0; i < 300; ++i) world_->Advance();
  }
  bool AdvanceUntil(const std::function<bool()>& done) {
    for (int i = 0; i < kMaxTurns && !done(); ++i) world_->Advance();
    return done();
  }

  static size_t Write(Connection& stream, size_t bytes) {
    std::vector<std::byte> payload(bytes);
    const iovec piece{.iov_base = payload.data(), .iov_len = payload.size()};
    const absl::StatusOr<size_t> written = stream.Write({&piece, 1});
    return written.ok() ? *written : 0;
  }
  // Reads until it would block.
  static size_t ReadAll(Connection& stream) {
    size_t all = 0;
    std::vector<std::byte> space(1 << 20);
    const iovec piece{.iov_base = space.data(), .iov_len = space.size()};
    while (stream.readable()) {
      const absl::StatusOr<size_t> got = stream.Read({&piece, 1});
      if (!got.ok() || *got == 0) break;
      all += *got;
    }
    return all;
  }
};

TEST_P(StreamWakes, AReadyStreamWakesAtOnce) {
  const TransportWorld::Ends ends = Open();
  RecordingWaker waker;
  ends.receiver->SetWaker(&waker);
  EXPECT_TRUE(waker.woken);
}

TEST_P(StreamWakes, AStreamThatOpensWakes) {
  TransportWorld::Ends ends = world_->Connect();
  RecordingWaker waker;
  ends.sender->SetWaker(&waker);
  EXPECT_TRUE(AdvanceUntil([&] { return ends.sender->writable(); }));
  EXPECT_TRUE(waker.woken);
}

TEST_P(StreamWakes, BytesWakeTheirReceiverEachTimeAndNoOtherStreams) {
  const TransportWorld::Ends ends = Open(), others = Open();
  RecordingWaker waker, other, other_sender;
  ends.receiver->SetWaker(&waker);
  others.receiver->SetWaker(&other);
  others.sender->SetWaker(&other_sender);
  for (int i = 0; i < 5; ++i) {
    waker.woken = other.woken = other_sender.woken = false;
    ASSERT_EQ(Write(*ends.sender, 100), 100u);
    ASSERT_TRUE(AdvanceUntil([&] { return waker.woken; })) << "message " << i;
    DrainEvents();
    EXPECT_EQ(ReadAll(*ends.receiver), 100u);
    EXPECT_FALSE(other.woken);
    EXPECT_FALSE(other_sender.woken);
  }
}

// A reader may read a part of the received bytes and sleep: later bytes wake it.
TEST_P(StreamWakes, NewBytesWakeAfterUnreadBytes) {
  const TransportWorld::Ends ends = Open();
  RecordingWaker waker;
  ends.receiver->SetWaker(&waker);
  ASSERT_EQ(Write(*ends.sender, 100), 100u);
  DrainEvents();
  ASSERT_TRUE(ends.receiver->readable());
  waker.woken = false;
  ASSERT_EQ(Write(*ends.sender, 100), 100u);
  EXPECT_TRUE(AdvanceUntil([&] { return waker.woken; }));
}

TEST_P(StreamWakes, RoomWakesASenderThatFoundNone) {
  const TransportWorld::Ends ends = Open();
  RecordingWaker waker;
  ends.sender->SetWaker(&waker);
  size_t sent = 0, got = 0;
  for (int turn = 0; ends.sender->writable() && turn < kMaxTurns; ++turn) {
    sent += Write(*ends.sender, 1 << 20);
  }
  ASSERT_FALSE(ends.sender->writable());
  DrainEvents();
  waker.woken = false;
  ASSERT_TRUE(AdvanceUntil([&] {
    got += ReadAll(*ends.receiver);
    return ends.sender->writable();
  }));
  EXPECT_TRUE(waker.woken);
  EXPECT_LE(got, sent);
}

TEST_P(StreamWakes, TheEndOfAStreamWakesItsOtherEnd) {
  for (const bool sender_leaves : {true, false}) {
    TransportWorld::Ends ends = Open();
    std::unique_ptr<Connection>& leaver = sender_leaves ? ends.sender : ends.receiver;
    Connection& stays = sender_leaves ? *ends.receiver : *ends.sender;
    RecordingWaker waker;
    stays.SetWaker(&waker);
    waker.woken = false;
    leaver.reset();
    EXPECT_TRUE(AdvanceUntil([&] { return waker.woken; }));
    EXPECT_TRUE(stays.readable());
  }
}

// Its owner may be a part of what is destroyed. Bytes that the other end has not read let the
// kernel reset the connection, so that a last write of this end fails.
TEST_P(StreamWakes, AStreamThatIsDestroyedWakesNobody) {
  TransportWorld::Ends ends = Open();
  RecordingWaker waker;
  ASSERT_EQ(Write(*ends.sender, 100), 100u);
  ends.sender->SetWaker(&waker);
  ends.receiver.reset();
  waker.woken = false;
  ends.sender.reset();
  EXPECT_FALSE(waker.woken);
}

TEST_P(StreamWakes, OnlyTheLastWakerIsWoken) {
  const TransportWorld::Ends ends = Open();
  RecordingWaker first, second;
  ends.receiver->SetWaker(&first);
  ends.receiver->SetWaker(&second);
  first.woken = second.woken = false;
  ASSERT_EQ(Write(*ends.sender, 100), 100u);
  EXPECT_TRUE(AdvanceUntil([&] { return second.woken; }));
  EXPECT_FALSE(first.woken);
  ReadAll(*ends.receiver);
  ends.receiver->SetWaker(nullptr);
  second.woken = false;
  ASSERT_EQ(Write(*ends.sender, 100), 100u);
  EXPECT_TRUE(AdvanceUntil([&] { return ends.receiver->readable(); }));
  EXPECT_FALSE(second.woken);
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_STREAM_CONTRACT_H_
