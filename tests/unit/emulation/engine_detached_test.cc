// Kernels that watch a word: they leave their hardware queue to other work, and preserve their
// stream's order.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "tests/unit/emulation/engine_fixture.h"

namespace mccs::emulation {
namespace engine_detached_test {

WaitWord Watch(Word word, uint64_t value) {
  WaitWord wait = AtLeast(word, value);
  wait.detached = true;
  return wait;
}

// All streams share one hardware queue.
class OneQueue : public testing::Test {
 protected:
  std::shared_ptr<Stream> NewStream() { return engine_.CreateStream({.blocking = false}); }

  Engine& engine_ = NewEngine(1);
  wire::FenceLine line_{};
  uint64_t word_ = 0;
};

TEST_F(OneQueue, OtherWorkRunsWhileAKernelIsDetached) {
  const auto watching = NewStream();
  engine_.Enqueue(watching, Watch(FenceWord(&line_), 1));
  const auto other = NewStream();
  engine_.Enqueue(other, WriteWord{PlainWord(&word_), 7});
  EXPECT_EQ(Load(word_), 7u) << "nothing precedes it";
  bool ran = false;
  engine_.Enqueue(other, ProgramCode{[&ran] { ran = true; }});
  Synchronize(engine_, other);
  EXPECT_TRUE(ran);
  wire::SignalFence(line_, 1);
  Synchronize(engine_, watching);  // until then the engine reads the line
}

TEST_F(OneQueue, LaterWorkOfItsStreamWaitsAndBlocksTheQueue) {
  const auto watching = NewStream();
  engine_.Enqueue(watching, Watch(FenceWord(&line_), 1));
  engine_.Enqueue(watching, WriteWord{PlainWord(&word_), 1});
  const auto other = NewStream();
  uint64_t behind = 0;
  const Point point = engine_.Enqueue(other, WriteWord{PlainWord(&behind), 1});
  EXPECT_FALSE(engine_.Poll({&point, 1}));
  EXPECT_EQ(Load(word_), 0u);
  EXPECT_EQ(Load(behind), 0u);
  std::thread signaller([this] { wire::SignalFence(line_, 1); });
  Synchronize(engine_, other);
  EXPECT_EQ(Load(word_), 1u);
  EXPECT_EQ(Load(behind), 1u);
  signaller.join();
}

TEST_F(OneQueue, ASatisfiedWatchBlocksNothing) {
  wire::SignalFence(line_, 5);
  const auto stream = NewStream();
  engine_.Enqueue(stream, Watch(FenceWord(&line_), 5));
  engine_.Enqueue(stream, WriteWord{PlainWord(&word_), 1});
  EXPECT_EQ(Load(word_), 1u);
}

TEST_F(OneQueue, AnEventAfterItIsReachedWhenItEnds) {
  const auto watching = NewStream();
  engine_.Enqueue(watching, Watch(FenceWord(&line_), 1));
  const auto record = engine_.EnqueueRecord(watching);
  const auto other = NewStream();
  engine_.Enqueue(other, Join{}, {record->point});
  engine_.Enqueue(other, WriteWord{PlainWord(&word_), 1});
  EXPECT_FALSE(engine_.IsReached(record->point));
  std::thread signaller([this] { wire::SignalFence(line_, 1); });
  Synchronize(engine_, other);
  EXPECT_EQ(Load(word_), 1u);
  signaller.join();
}

TEST_F(OneQueue, ItBeginsAfterTheLegacyStreamsWork) {
  bool ran = false;
  engine_.Enqueue(engine_.legacy_stream(0), AtLeast(PlainWord(&word_), 1));
  engine_.Enqueue(engine_.legacy_stream(0), ProgramCode{[&ran] { ran = true; }});
  const auto blocking = engine_.CreateStream({.blocking = true});
  wire::SignalFence(line_, 1);
  const Point watched = engine_.Enqueue(blocking, Watch(FenceWord(&line_), 1));
  EXPECT_FALSE(engine_.Poll({&watched, 1}));
  Store(word_, 1);
  engine_.Wait({&watched, 1});
  EXPECT_TRUE(ran);
}

// Two ranks that call two communicators in opposite orders do this: each word is written after the
// wait for the other.
TEST_F(OneQueue, OppositeOrdersDoNotBlockEachOther) {
  Engine& peer = NewEngine(1);
  wire::FenceLine first{};
  wire::FenceLine second{};
  const auto a = NewStream();
  const auto b = NewStream();
  const auto c = peer.CreateStream({.blocking = false});
  const auto d = peer.CreateStream({.blocking = false});
  engine_.Enqueue(a, Watch(FenceWord(&first), 1));
  engine_.Enqueue(b, WriteWord{FenceWord(&second), 1});
  peer.Enqueue(c, Watch(FenceWord(&second), 1));
  peer.Enqueue(d, WriteWord{FenceWord(&first), 1});
  Synchronize(engine_, a);
  Synchronize(peer, c);
  EXPECT_EQ(first.sleepers.load(), 0u);
  EXPECT_EQ(second.sleepers.load(), 0u);
}

// Rounds of watches on many streams. Another thread writes their words in random order.
TEST_F(OneQueue, WordsMayBeWrittenInAnyOrder) {
  constexpr size_t kStreams = 20;
  constexpr uint64_t kRounds = 50;
  const uint64_t seed = std::random_device{}();
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  std::vector<wire::FenceLine> lines(kStreams);
  std::vector<std::shared_ptr<Stream>> streams(kStreams);
  for (auto& stream : streams) stream = NewStream();
  std::vector<size_t> order(kStreams);
  for (size_t i = 0; i < kStreams; ++i) order[i] = i;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    for (size_t i = 0; i < kStreams; ++i) {
      engine_.Enqueue(streams[i], Watch(FenceWord(&lines[i]), round));
    }
    std::shuffle(order.begin(), order.end(), random);
    std::thread signaller([&] {
      for (const size_t i : order) wire::SignalFence(lines[i], round);
    });
    for (const auto& stream : streams) Synchronize(engine_, stream);
    signaller.join();
  }
  for (wire::FenceLine& line : lines) EXPECT_EQ(line.sleepers.load(), 0u);
}

}  // namespace engine_detached_test
}  // namespace mccs::emulation
