// The contract of streams that wake a Waker when they become ready. The programs include it after
// transport_contract.h.
#ifndef MCCS_TESTS_CONTRACT_TRANSPORT_WAKE_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_TRANSPORT_WAKE_CONTRACT_H_

#include "tests/contract/transport_contract.h"

namespace mccs {

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

#endif  // MCCS_TESTS_CONTRACT_TRANSPORT_WAKE_CONTRACT_H_
