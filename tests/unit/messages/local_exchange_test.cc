// Many copies on one host: how much of them one Poll does.
#include "service/messages/local_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "service/device/cpu_device.h"
#include "service/messages/local_puts.h"
#include "service/messages/poll_limit.h"
#include "service/messages/signal_counts.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/device/process_memory.h"
#include "tests/unit/messages/idle_port.h"

namespace mccs {
namespace local_exchange_test {

constexpr RankPair kPair{Rank(0), Rank(1)};
constexpr size_t kMessages = 1000;

OpKind OtherEnd(OpKind kind) { return kind == OpKind::kSend ? OpKind::kRecv : OpKind::kSend; }

class LocalExchangeTest : public testing::Test {
 protected:
  OpenMessage Make(OpKind kind, uint64_t bytes) {
    calls_.push_back(
        {.kind = kind,
         .type = DataType::kInt8,
         .peer = Rank(1),
         .count = bytes,
         .memory = SpanAt(kind == OpKind::kRecv ? output_.data() : input_.data(), bytes),
         .window = 1});
    return {.call = &calls_.back(), .port = &port_, .pair = kPair, .number = calls_.size()};
  }
  // Polls until all are complete; returns the highest number of one Poll.
  template <typename Poll>
  size_t MostOfOnePoll(size_t all, const Poll& poll) {
    size_t complete = 0;
    size_t most = 0;
    for (size_t polls = 0; complete < all && polls < 2 * all; ++polls) {
      std::vector<OpenMessage> done;
      const absl::StatusOr<bool> moved = poll(done);
      EXPECT_TRUE(moved.ok() && *moved) << "the engine would rest with work left";
      most = std::max(most, done.size());
      complete += done.size();
    }
    EXPECT_EQ(complete, all);
    return most;
  }
  size_t MostMessagesOfOnePoll(uint64_t bytes) {
    LocalExchange exchange(device_);
    for (size_t i = 0; i < kMessages; ++i) {
      EXPECT_TRUE(exchange.Add(Make(OpKind::kSend, bytes)).ok());
      EXPECT_TRUE(exchange.Add(Make(OpKind::kRecv, bytes)).ok());
    }
    const size_t ends = MostOfOnePoll(
        2 * kMessages, [&](std::vector<OpenMessage>& done) { return exchange.Poll(done); });
    EXPECT_FALSE(exchange.copying());
    return ends / 2;
  }

  CpuDevice device_{{.workers = 0}, std::make_unique<LocalImporter>()};
  IdlePort port_;
  std::deque<PostedMessage> calls_;
  std::vector<std::byte> input_ = std::vector<std::byte>(PollLimit::kBytes);
  std::vector<std::byte> output_ = std::vector<std::byte>(PollLimit::kBytes);
};

TEST_F(LocalExchangeTest, OnePollCompletesALimitedNumberOfSmallMessages) {
  EXPECT_EQ(MostMessagesOfOnePoll(8), PollLimit::kCopies);
}

TEST_F(LocalExchangeTest, OnePollCopiesALimitedNumberOfBytes) {
  constexpr uint64_t kBytes = 16 << 10;
  // A copy reads and writes its bytes.
  EXPECT_EQ(MostMessagesOfOnePoll(kBytes), PollLimit::kBytes / (2 * kBytes));
}

// A tenant chooses how many pairs of its ranks exchange messages, once each.
TEST_F(LocalExchangeTest, KeepsFewPairsWhoseMessagesAreMatched) {
  constexpr size_t kPairs = 2 * LocalExchange::kMaxIdlePairs;
  LocalExchange exchange(device_);
  for (const int turn : {0, 1}) {
    for (const OpKind kind : {OpKind::kSend, OpKind::kRecv}) {
      for (size_t i = 0; i < kPairs; ++i) {
        OpenMessage message = Make(i % 2 == 0 ? kind : OtherEnd(kind), 0);
        message.pair = {Rank(static_cast<int>(i) / 2), Rank(10'000 + static_cast<int>(i) % 2)};
        ASSERT_TRUE(exchange.Add(message).ok());
      }
      const bool matched = kind == OpKind::kRecv;
      EXPECT_EQ(exchange.kept_pairs(), matched ? LocalExchange::kMaxIdlePairs : kPairs) << turn;
      WaitingCalls waiting;
      exchange.AddUnmatched(waiting);
      EXPECT_EQ(waiting.calls().size(), matched ? 0 : WaitingCalls::kMost) << "of " << kPairs;
    }
  }
}

TEST_F(LocalExchangeTest, FindsTheCallsThatWaitForARank) {
  LocalExchange exchange(device_);
  const auto add = [&](OpKind kind, int source, int destination) {
    OpenMessage message = Make(kind, 8);
    message.pair = {Rank(source), Rank(destination)};
    EXPECT_TRUE(exchange.Add(message).ok());
  };
  add(OpKind::kSend, 0, 1);
  add(OpKind::kSend, 2, 1);
  add(OpKind::kRecv, 3, 0);
  add(OpKind::kRecv, 3, 0);
  ASSERT_NE(exchange.WaitingFor(Rank(1)), nullptr);
  EXPECT_EQ(exchange.WaitingFor(Rank(1))->call->kind, OpKind::kSend);
  ASSERT_NE(exchange.WaitingFor(Rank(3)), nullptr);
  EXPECT_EQ(exchange.WaitingFor(Rank(3))->caller(), Rank(0));
  EXPECT_EQ(exchange.WaitingFor(Rank(0)), nullptr);
  EXPECT_EQ(exchange.WaitingFor(Rank(2)), nullptr);
  add(OpKind::kSend, 3, 0);
  EXPECT_NE(exchange.WaitingFor(Rank(3)), nullptr) << "the second receive";
  add(OpKind::kSend, 3, 0);
  EXPECT_EQ(exchange.WaitingFor(Rank(3)), nullptr);
  add(OpKind::kRecv, 0, 1);
  ASSERT_NE(exchange.WaitingFor(Rank(1)), nullptr);
  EXPECT_EQ(exchange.WaitingFor(Rank(1))->caller(), Rank(2));
}

TEST_F(LocalExchangeTest, OnePollCompletesALimitedNumberOfPuts) {
  SignalCounts signals;
  LocalPuts puts({.device = &device_, .signals = &signals, .port_of = [this](Rank) {
                    return static_cast<const WindowPort*>(&port_);
                  }});
  for (size_t i = 0; i < kMessages; ++i) puts.Add(Make(OpKind::kPut, 0));
  const size_t most =
      MostOfOnePoll(kMessages, [&](std::vector<OpenMessage>& done) { return puts.Poll(done); });
  EXPECT_EQ(most, PollLimit::kCopies);
}

// More calls wait than one Poll checks, and the one that can advance is behind the others.
TEST_F(LocalExchangeTest, PutsBehindWaitingOnesAreNotForgotten) {
  SignalCounts signals;
  Rank open(-1);
  LocalPuts puts({.device = &device_, .signals = &signals, .port_of = [&](Rank rank) {
                    return rank == open ? static_cast<const WindowPort*>(&port_) : nullptr;
                  }});
  for (size_t i = 0; i < kMessages; ++i) {
    OpenMessage put = Make(OpKind::kPut, 0);
    put.pair = {Rank(0), Rank(static_cast<int>(i))};
    puts.Add(put);
  }
  std::vector<OpenMessage> done;
  while (puts.copying()) ASSERT_TRUE(puts.Poll(done).ok());
  EXPECT_TRUE(done.empty());
  open = Rank(kMessages - 1);
  puts.WindowsChanged();
  while (puts.copying()) ASSERT_TRUE(puts.Poll(done).ok());
  EXPECT_EQ(done.size(), 1u);
}

}  // namespace local_exchange_test
}  // namespace mccs
