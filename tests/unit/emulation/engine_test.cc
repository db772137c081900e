// The stream engine: order, the threads that run work, and sleeping on words of other threads.

#include "emulation/core/engine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "proto/fence_page.h"
#include "tests/unit/emulation/engine_fixture.h"

namespace mccs::emulation {
namespace engine_test {

using std::chrono::milliseconds;

class EngineTest : public testing::TestWithParam<int> {
 protected:
  Engine& engine_ = NewEngine(GetParam());
  std::shared_ptr<Stream> NonBlocking() { return engine_.CreateStream({.blocking = false}); }
};
INSTANTIATE_TEST_SUITE_P(Connections, EngineTest, testing::Values(1, 8, 32));

TEST_P(EngineTest, WorkOfAStreamRunsInOrder) {
  const auto stream = NonBlocking();
  std::vector<int> seen;
  for (int i = 0; i < 1000; ++i) {
    engine_.Enqueue(stream, ProgramCode{[&seen, i] { seen.push_back(i); }});
  }
  Synchronize(engine_, stream);
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
}

TEST_P(EngineTest, AWordAtTheHeadOfAnIdleStreamIsWrittenAtOnce) {
  uint64_t word = 0;
  engine_.Enqueue(NonBlocking(), WriteWord{PlainWord(&word), 7});
  EXPECT_EQ(Load(word), 7u);
}

TEST_P(EngineTest, ProgramCodeNeverRunsInEnqueue) {
  const auto stream = NonBlocking();
  const std::thread::id self = std::this_thread::get_id();
  std::atomic<bool> ran{false};
  std::atomic<bool> on_caller{false};
  engine_.Enqueue(stream, ProgramCode{[&] {
                    on_caller = std::this_thread::get_id() == self;
                    ran = true;
                  }});
  EXPECT_TRUE(Eventually([&] { return ran.load(); }));  // without any further call
  EXPECT_FALSE(on_caller.load());
  Synchronize(engine_, stream);
}

TEST_P(EngineTest, AWaitingThreadRunsTheWork) {
  const auto stream = NonBlocking();
  const std::thread::id self = std::this_thread::get_id();
  int on_caller = 0;
  constexpr int kRounds = 200;
  for (int i = 0; i < kRounds; ++i) {
    engine_.Enqueue(stream, ProgramCode{[&] { on_caller += std::this_thread::get_id() == self; }},
                    {}, true);
    Synchronize(engine_, stream);
  }
  EXPECT_GT(on_caller,
            kRounds / 2);  // the background thread may run some if the caller is preempted
}

TEST_P(EngineTest, AWaitBlocksItsStreamUntilAnotherThreadStores) {
  const auto stream = NonBlocking();
  uint64_t gate = 0;
  uint64_t after = 0;
  engine_.Enqueue(stream, AtLeast(PlainWord(&gate), 1));
  const Point done = engine_.Enqueue(stream, WriteWord{PlainWord(&after), 1});
  EXPECT_FALSE(engine_.Poll({&done, 1}));
  EXPECT_EQ(Load(after), 0u);
  std::thread signaller([&] {
    // The waiter should be asleep by now; nothing shows that it sleeps on a plain word.
    std::this_thread::sleep_for(milliseconds(5));
    Store(gate, 1);
  });
  engine_.Wait({&done, 1});
  EXPECT_EQ(Load(after), 1u);
  signaller.join();
}

// A program that enqueues call after call depends on no other thread's wakeup.
TEST_P(EngineTest, EnqueueRunsWhatHasBecomeReadyBefore) {
  const auto stream = NonBlocking();
  uint64_t gate = 0;
  uint64_t after = 0;
  uint64_t last = 0;
  engine_.Enqueue(stream, AtLeast(PlainWord(&gate), 1));
  engine_.Enqueue(stream, WriteWord{PlainWord(&after), 1});
  EXPECT_EQ(Load(after), 0u);
  Store(gate, 1);
  engine_.Enqueue(stream, WriteWord{PlainWord(&last), 1});
  EXPECT_EQ(Load(after), 1u);
  EXPECT_EQ(Load(last), 1u);
}

TEST_P(EngineTest, ASleeperOnAFenceIsCountedAndWoken) {
  const auto stream = NonBlocking();
  wire::FenceLine line{};
  const Point done = engine_.Enqueue(stream, AtLeast(FenceWord(&line), 1));
  std::thread signaller([&] {
    EXPECT_TRUE(Eventually([&] { return line.sleepers.load() != 0; }));
    wire::SignalFence(line, 1);
  });
  engine_.Wait({&done, 1});
  signaller.join();
  EXPECT_EQ(line.sleepers.load(), 0u);
}

TEST_P(EngineTest, PoisonReleasesAStreamWithoutAWaitingThread) {
  const auto stream = NonBlocking();
  wire::FenceLine line{};
  uint64_t after = 0;
  engine_.Enqueue(stream, AtLeast(FenceWord(&line), 1));
  engine_.Enqueue(stream, WriteWord{PlainWord(&after), 1});
  ASSERT_TRUE(Eventually([&] { return line.sleepers.load() != 0; }));
  wire::SignalFence(line, wire::kFencePoison);
  EXPECT_TRUE(Eventually([&] { return Load(after) == 1; }));
}

TEST_P(EngineTest, OneStreamsWriteReleasesAnothersWait) {
  const auto first = NonBlocking();
  const auto second = NonBlocking();
  wire::FenceLine line{};
  uint64_t after = 0;
  std::atomic<bool> open{false};
  engine_.Enqueue(first, ProgramCode{[&] {
                    while (!open) std::this_thread::yield();
                  }});
  engine_.Enqueue(first, WriteWord{FenceWord(&line), 1});
  engine_.Enqueue(second, AtLeast(FenceWord(&line), 1));
  engine_.Enqueue(second, WriteWord{PlainWord(&after), 1});
  EXPECT_EQ(Load(after), 0u);
  open = true;
  Synchronize(engine_, second);
  EXPECT_EQ(Load(after), 1u);
  Synchronize(engine_, first);
}

TEST_P(EngineTest, TheLegacyStreamAndBlockingStreamsWaitForEachOther) {
  const auto blocking = engine_.CreateStream({});
  uint64_t gate = 0;
  uint64_t legacy_word = 0;
  uint64_t late_word = 0;
  engine_.Enqueue(blocking, AtLeast(PlainWord(&gate), 1));
  engine_.Enqueue(engine_.legacy_stream(0), WriteWord{PlainWord(&legacy_word), 1});
  const auto late = engine_.CreateStream({});
  const Point done = engine_.Enqueue(late, WriteWord{PlainWord(&late_word), 1});
  EXPECT_FALSE(engine_.Poll({&done, 1}));
  EXPECT_EQ(Load(legacy_word), 0u);
  Store(gate, 1);
  engine_.Wait({&done, 1});
  EXPECT_EQ(Load(legacy_word), 1u);
  EXPECT_EQ(Load(late_word), 1u);
}

TEST_P(EngineTest, AQueryRunsNoProgramCode) {
  const auto stream = NonBlocking();
  std::atomic<bool> asked{false};
  const Point done = engine_.Enqueue(stream, ProgramCode{[&] {
                                       while (!asked) std::this_thread::yield();
                                     }});
  EXPECT_FALSE(engine_.Poll({&done, 1}));  // would block if it did
  asked = true;
  engine_.Wait({&done, 1});
}

TEST_P(EngineTest, ARecordHasTheTimeAtWhichItWasReached) {
  const auto stream = NonBlocking();
  uint64_t gate = 0;
  const auto before = engine_.EnqueueRecord(stream);
  engine_.Enqueue(stream, AtLeast(PlainWord(&gate), 1));
  const auto after = engine_.EnqueueRecord(stream);
  EXPECT_TRUE(engine_.Poll({&before->point, 1}));
  EXPECT_FALSE(engine_.Poll({&after->point, 1}));
  const auto opened = std::chrono::steady_clock::now();
  EXPECT_LE(before->reached, opened);
  Store(gate, 1);
  engine_.Wait({&after->point, 1});
  EXPECT_GE(after->reached, opened);
  EXPECT_LE(after->reached, std::chrono::steady_clock::now());
}

TEST(EngineQueues, AWaitBlocksOnlyTheStreamsOfItsQueue) {
  Engine& engine = NewEngine(4);  // the legacy stream takes the first queue
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(engine.CreateStream({.blocking = false}));
  uint64_t gate = 0;
  uint64_t words[4] = {};
  engine.Enqueue(streams[0], AtLeast(PlainWord(&gate), 1));
  const auto shares = engine.CreateStream({.blocking = false});  // sixth stream: second queue
  for (size_t i = 1; i < 4; ++i) engine.Enqueue(streams[i], WriteWord{PlainWord(&words[i]), 1});
  const Point held = engine.Enqueue(shares, WriteWord{PlainWord(&words[0]), 1});
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(Load(words[i]), 1u);
  EXPECT_FALSE(engine.Poll({&held, 1}));
  EXPECT_EQ(Load(words[0]), 0u);
  Store(gate, 1);
  engine.Wait({&held, 1});
  EXPECT_EQ(Load(words[0]), 1u);
}

TEST(EngineQueues, AWaitBlocksNoStreamOfAnotherPriority) {
  Engine& engine = NewEngine(1);
  const auto waiting = engine.CreateStream({.blocking = false});
  const auto normal = engine.CreateStream({.blocking = false});
  const auto urgent = engine.CreateStream({.blocking = false, .priority = -5});
  const auto next = engine.CreateStream({.blocking = false, .priority = -4});
  uint64_t word = 0, normal_word = 0, urgent_word = 0, next_word = 0;
  engine.Enqueue(waiting, AtLeast(PlainWord(&word), 1));
  engine.Enqueue(normal, WriteWord{PlainWord(&normal_word), 1});
  engine.Enqueue(next, AtLeast(PlainWord(&word), 1));
  engine.Enqueue(next, WriteWord{PlainWord(&next_word), 1});
  engine.Enqueue(urgent, WriteWord{PlainWord(&urgent_word), 1});
  Synchronize(engine, urgent);
  EXPECT_EQ(Load(urgent_word), 1u);
  EXPECT_EQ(Load(normal_word), 0u) << "it shares the queue of the stream that waits";
  Store(word, 1);
  Synchronize(engine, normal);
  Synchronize(engine, next);
  EXPECT_EQ(Load(normal_word), 1u);
}

TEST(EngineQueues, ABlockedHostFunctionBlocksOnlyItsStream) {
  Engine& engine = NewEngine(8);
  const auto blocked = engine.CreateStream({.blocking = false});
  const auto working = engine.CreateStream({.blocking = false});
  std::atomic<bool> open{false};
  std::atomic<bool> entered{false};
  engine.Enqueue(blocked, ProgramCode{[&] {
                   entered = true;
                   while (!open) std::this_thread::yield();
                 }});
  ASSERT_TRUE(Eventually([&] { return entered.load(); }));
  std::vector<char> bytes(4096);
  uint64_t word = 0;
  engine.Enqueue(working, FillRows{.to = bytes.data(), .value = 5, .row_elements = bytes.size()});
  engine.Enqueue(working, WriteWord{PlainWord(&word), 1});
  EXPECT_TRUE(Eventually([&] { return Load(word) == 1; }));
  EXPECT_EQ(bytes[4095], 5);
  open = true;
  engine.Wait(engine.PendingOf(blocked));
}

TEST(EngineQueues, ASleepingWaiterDoesNotBlockOtherWork) {
  Engine& engine = NewEngine(8);
  const auto blocked = engine.CreateStream({.blocking = false});
  const auto working = engine.CreateStream({.blocking = false});
  wire::FenceLine gate{};
  const Point done = engine.Enqueue(blocked, AtLeast(FenceWord(&gate), 1));
  std::thread waiter([&] { engine.Wait({&done, 1}); });
  std::vector<char> bytes(4096);
  for (uint64_t round = 1; round <= 20; ++round) {
    // Long enough for every thread to fall asleep between the rounds. Only the waiter on the fence
    // shows that it sleeps.
    std::this_thread::sleep_for(milliseconds(3));
    uint64_t word = 0;
    const auto start = std::chrono::steady_clock::now();
    engine.Enqueue(working, FillRows{.to = bytes.data(), .value = 5, .row_elements = bytes.size()});
    engine.Enqueue(working, WriteWord{PlainWord(&word), 1});
    ASSERT_TRUE(Eventually([&] { return Load(word) == 1; }));
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(500));
  }
  wire::SignalFence(gate, 1);
  waiter.join();
}

// A static object's destructor may join a thread that waits, or wait itself.
TEST(EngineQueues, NoThreadWaitsForAWordAtProcessExit) {
  Engine& engine = NewEngine(8);
  const auto blocked = engine.CreateStream({.blocking = false});
  const auto working = engine.CreateStream({.blocking = false});
  wire::FenceLine gate{};
  std::vector<char> bytes(4096);
  engine.Enqueue(blocked, AtLeast(FenceWord(&gate), 1));
  const Point behind = engine.Enqueue(
      blocked, FillRows{.to = bytes.data(), .value = 5, .row_elements = bytes.size()});
  std::thread waiter([&] { EXPECT_FALSE(engine.Wait({&behind, 1})); });
  engine.OnProcessExit();
  waiter.join();
  EXPECT_FALSE(engine.Wait(engine.PendingOf(blocked)));
  EXPECT_EQ(bytes[0], 0) << "work behind the word does not run";
  const Point other = engine.Enqueue(
      working, FillRows{.to = bytes.data(), .value = 6, .row_elements = bytes.size()});
  EXPECT_TRUE(engine.Wait({&other, 1})) << "other work runs";
  wire::SignalFence(gate, 1);
  EXPECT_TRUE(engine.Wait({&behind, 1}));
}

TEST(EngineQueues, WaitAtProcessExitContinuesWhileWorkRuns) {
  Engine& engine = NewEngine(8);
  const auto stream = engine.CreateStream({.blocking = false});
  std::atomic<bool> open{false};
  std::atomic<bool> entered{false};
  engine.Enqueue(stream, ProgramCode{[&] {
                   entered = true;
                   while (!open) std::this_thread::yield();
                 }});
  ASSERT_TRUE(Eventually([&] { return entered.load(); }));
  engine.OnProcessExit();
  std::thread opener([&] {  // much later than a wait ends if nothing runs
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
    open = true;
  });
  EXPECT_TRUE(engine.Wait(engine.PendingOf(stream)));
  opener.join();
}

// Three threads with their own streams pass a token by fences. They randomly wait, poll, or leave
// the work to the background thread.
TEST_P(EngineTest, TokensPassBetweenThreadsInEveryWaitMode) {
  constexpr int kThreads = 3;
  constexpr uint64_t kRounds = 300;
  const uint64_t seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  printf("seed %lu\n", static_cast<unsigned long>(seed));
  // With one queue, a wait that is enqueued before its signal blocks the signal forever, so each
  // thread has its own engine, like a process.
  wire::FenceLine lines[kThreads] = {};
  std::vector<std::thread> threads;
  for (int self = 0; self < kThreads; ++self) {
    threads.emplace_back([&, self] {
      Engine& engine = NewEngine(GetParam());
      std::mt19937_64 random(seed + static_cast<uint64_t>(self));
      const auto stream = engine.CreateStream({.blocking = false});
      for (uint64_t round = 1; round <= kRounds; ++round) {
        const uint64_t wanted = self == 0 ? round - 1 : round;
        wire::FenceLine& before = lines[(self + kThreads - 1) % kThreads];
        engine.Enqueue(stream, AtLeast(FenceWord(&before), wanted));
        const Point passed = engine.Enqueue(stream, WriteWord{FenceWord(&lines[self]), round});
        switch (random() % 3) {
          case 0:
            engine.Wait({&passed, 1});
            break;
          case 1:
            ASSERT_TRUE(Eventually([&] { return engine.Poll({&passed, 1}); }));
            break;
          default:
            break;
        }
      }
      engine.Wait(engine.PendingOf(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (wire::FenceLine& line : lines) {
    EXPECT_EQ(line.value.load(), kRounds);
    EXPECT_EQ(line.sleepers.load(), 0u);
  }
}

// Many threads on one engine, with events between their streams.
TEST_P(EngineTest, EventsChainStreamsOfManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<int> counters(kThreads);
  std::vector<std::thread> threads;
  for (int self = 0; self < kThreads; ++self) {
    threads.emplace_back([&, self] {
      const auto first = NonBlocking();
      const auto second = NonBlocking();
      int& counter = counters[static_cast<size_t>(self)];
      for (int i = 0; i < kRounds; ++i) {
        engine_.Enqueue(first, ProgramCode{[&counter] { ++counter; }});
        const auto half = engine_.EnqueueRecord(first);
        engine_.Enqueue(second, ProgramCode{[&counter] { counter *= 1; }}, {half->point});
        const auto whole = engine_.EnqueueRecord(second);
        engine_.Enqueue(first, Join{}, {whole->point});
        if (i % 7 == 0) Synchronize(engine_, first);
      }
      Synchronize(engine_, second);
      Synchronize(engine_, first);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int counter : counters) EXPECT_EQ(counter, kRounds);
}

// ---- Cost of waiting for other threads -------------------------------------------------------

// Number of times that threads of this process fell asleep.
long Sleeps() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

TEST(EngineCost, AQueryWithoutProgressWakesNoThread) {
  Engine& engine = NewEngine(8);
  const auto stream = engine.CreateStream({.blocking = false});
  wire::FenceLine line{};
  const Point done = engine.Enqueue(stream, AtLeast(FenceWord(&line), 1));
  constexpr int kQuestions = 200'000;
  const long before = Sleeps();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kQuestions; ++i) ASSERT_FALSE(engine.Poll({&done, 1}));
  const auto asked_for = std::chrono::steady_clock::now() - start;
  // Of the background thread: before it sleeps on the word, and then periodically, which matters on
  // a busy machine with slow queries.
  constexpr long kFewLooks = 100;
  constexpr milliseconds kLookEvery{2};
  EXPECT_LT(Sleeps() - before, kFewLooks + asked_for / kLookEvery);
  wire::SignalFence(line, 1);
  EXPECT_TRUE(Eventually([&] { return engine.Poll({&done, 1}); }));
}

// Two threads on one processor: a waiting thread must let the other one signal.
class OneProcessor : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);  // new threads inherit it
  }
  void TearDown() override { sched_setaffinity(0, sizeof(before_), &before_); }

  // Starts a thread that answers `ready` = n by `done` = n, for n up to `rounds`.
  static std::thread Answerer(wire::FenceLine& ready, wire::FenceLine& done, uint64_t rounds) {
    return std::thread([&ready, &done, rounds] {
      for (uint64_t n = 1; n <= rounds; ++n) {
        while (ready.value.load(std::memory_order_acquire) < n) sched_yield();
        wire::SignalFence(done, n);
      }
    });
  }

 private:
  cpu_set_t before_;
};

// A wait spins for a limited time. On a busy machine other processes use up that time, so some runs
// may sleep often.
TEST_F(OneProcessor, AWaitingThreadYieldsToTheSignalingThread) {
  Engine& engine = NewEngine(8);
  const auto stream = engine.CreateStream({.blocking = false});
  constexpr uint64_t kRounds = 200;
  const auto run = [&] {
    wire::FenceLine ready{};
    wire::FenceLine done{};
    std::thread answerer = Answerer(ready, done, kRounds);
    const long before = Sleeps();
    for (uint64_t n = 1; n <= kRounds; ++n) {
      engine.Enqueue(stream, WriteWord{FenceWord(&ready), n});
      engine.Enqueue(stream, AtLeast(FenceWord(&done), n));
      Synchronize(engine, stream);
    }
    const long sleeps = Sleeps() - before;
    answerer.join();
    return sleeps;
  };
  EXPECT_TRUE(Eventually([&] { return run() < static_cast<long>(kRounds / 2); }));
}

TEST_F(OneProcessor, APollingThreadYieldsToTheSignalingThread) {
  Engine& engine = NewEngine(8);
  const auto stream = engine.CreateStream({.blocking = false});
  constexpr uint64_t kRounds = 200;
  constexpr long kQuestionsPerRound = 1'000;
  wire::FenceLine ready{};
  wire::FenceLine done{};
  std::thread answerer = Answerer(ready, done, kRounds);
  long questions = 0;
  for (uint64_t n = 1; n <= kRounds; ++n) {
    engine.Enqueue(stream, WriteWord{FenceWord(&ready), n});
    const Point point = engine.Enqueue(stream, AtLeast(FenceWord(&done), n));
    while (!engine.Poll({&point, 1})) ++questions;
  }
  answerer.join();
  EXPECT_LT(questions, kQuestionsPerRound * static_cast<long>(kRounds));
}

}  // namespace engine_test
}  // namespace mccs::emulation
