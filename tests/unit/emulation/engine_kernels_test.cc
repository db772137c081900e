// Resumable kernels in the stream engine: which threads advance them, order, sleeping, and the end
// of the process.

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/unit/emulation/engine_fixture.h"
#include "tests/unit/emulation/script_kernel.h"

namespace mccs::emulation {
namespace engine_kernels_test {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Most tests use one hardware queue, where work blocks the most other work.
class Kernels : public testing::Test {
 protected:
  std::shared_ptr<Stream> NewStream() { return engine_.CreateStream({.blocking = false}); }
  Point Launch(const std::shared_ptr<Stream>& stream, const ScriptKernel& kernel) {
    return engine_.Enqueue(stream, kernel.Launch());
  }

  Engine& engine_ = NewEngine(1);
  wire::FenceLine line_{};
  uint64_t word_ = 0;
};

TEST_F(Kernels, AWaitingThreadRunsAllPieces) {
  const ScriptKernel kernel([](size_t step, MccsEmulatedWait*) {
    return step == 10 ? MCCS_EMULATED_FINISHED : MCCS_EMULATED_AGAIN;
  });
  const auto stream = NewStream();
  Launch(stream, kernel);
  Synchronize(engine_, stream);
  EXPECT_EQ(kernel.begun(), 1);
  EXPECT_EQ(kernel.advanced(), 11);
  EXPECT_EQ(kernel.ended(), 1);
}

TEST_F(Kernels, NoCallEnqueuesAndRunsAPiece) {
  const std::thread::id self = std::this_thread::get_id();
  std::atomic<bool> on_caller{false};
  const ScriptKernel kernel([&](size_t, MccsEmulatedWait*) {
    on_caller = std::this_thread::get_id() == self;
    return MCCS_EMULATED_FINISHED;
  });
  Launch(NewStream(), kernel);
  EXPECT_TRUE(Eventually([&] { return kernel.ended() == 1; })) << "the background thread runs it";
  EXPECT_FALSE(on_caller);
}

TEST_F(Kernels, TheBackgroundThreadFollowsTheWords) {
  wire::FenceLine answer{};
  const ScriptKernel kernel(Answers(line_, 100, &answer));
  Launch(NewStream(), kernel);
  for (uint64_t round = 1; round <= 100; ++round) {
    wire::SignalFence(line_, round);
    ASSERT_TRUE(Eventually([&] { return answer.value.load() == round; })) << round;
  }
  EXPECT_TRUE(Eventually([&] { return kernel.ended() == 1; }));
}

TEST_F(Kernels, LaterWorkOfTheStreamWaitsAndOtherStreamsContinue) {
  const ScriptKernel kernel(Answers(line_, 2));
  const auto stream = NewStream();
  const auto other = NewStream();
  Launch(stream, kernel);
  uint64_t beside = 0;
  engine_.Enqueue(other, WriteWord{PlainWord(&beside), 1});
  bool ran = false;
  engine_.Enqueue(other, ProgramCode{[&ran] { ran = true; }});
  Synchronize(engine_, other);
  EXPECT_EQ(Load(beside), 1u);
  EXPECT_TRUE(ran);
  const Point behind = engine_.Enqueue(stream, WriteWord{PlainWord(&word_), 1});
  wire::SignalFence(line_, 1);
  EXPECT_FALSE(engine_.Poll({&behind, 1}));
  EXPECT_EQ(Load(word_), 0u);
  wire::SignalFence(line_, 2);
  Synchronize(engine_, stream);
  EXPECT_EQ(Load(word_), 1u);
  EXPECT_EQ(kernel.ended(), 1);
}

TEST_F(Kernels, AQueryRunsOnePieceAtMost) {
  const auto stream = NewStream();
  engine_.Enqueue(stream, AtLeast(PlainWord(&word_), 1));
  const ScriptKernel kernel([](size_t, MccsEmulatedWait*) { return MCCS_EMULATED_AGAIN; });
  const Point done = Launch(stream, kernel);
  EXPECT_FALSE(engine_.Poll({&done, 1}));
  EXPECT_EQ(kernel.begun(), 0) << "its stream waits for a word";
  Store(word_, 1);
  EXPECT_FALSE(engine_.Poll({&done, 1})) << "would not return if it ran all pieces";
  engine_.OnProcessExit();  // no other thread runs a piece now
  const int before = kernel.advanced();
  EXPECT_FALSE(engine_.Poll({&done, 1}));
  EXPECT_EQ(kernel.advanced(), before);
}

TEST_F(Kernels, QueriesOfAnEventAdvanceTheKernelBeforeIt) {
  const ScriptKernel kernel(Answers(line_, 3));
  const auto stream = NewStream();
  Launch(stream, kernel);
  const auto record = engine_.EnqueueRecord(stream);
  EXPECT_FALSE(engine_.Poll({&record->point, 1}));
  for (uint64_t value = 1; value <= 3; ++value) wire::SignalFence(line_, value);
  EXPECT_TRUE(Eventually([&] { return engine_.Poll({&record->point, 1}); }));
  EXPECT_EQ(kernel.ended(), 1);
}

TEST_F(Kernels, PoisonEndsEveryWait) {
  const ScriptKernel kernel(Answers(line_, 5));
  const auto stream = NewStream();
  Launch(stream, kernel);
  std::thread signaller([this] {
    EXPECT_TRUE(Eventually([this] { return line_.sleepers.load() != 0; }));
    wire::SignalFence(line_, wire::kFencePoison);
  });
  Synchronize(engine_, stream);
  signaller.join();
  EXPECT_EQ(kernel.ended(), 1);
  EXPECT_EQ(line_.sleepers.load(), 0u);
}

// While it runs, a kernel may unmap a line that it no longer waits for.
TEST_F(Kernels, NoLineCountsSleepersAfterItsWait) {
  wire::FenceLine second{};
  const ScriptKernel kernel([&](size_t step, MccsEmulatedWait* wait) {
    if (step == 0) return AwaitLine(line_, 1, wait);
    EXPECT_EQ(line_.sleepers.load(), 0u);
    if (step == 1) return AwaitLine(second, 1, wait);
    EXPECT_EQ(second.sleepers.load(), 0u);
    return MCCS_EMULATED_FINISHED;
  });
  const auto stream = NewStream();
  Launch(stream, kernel);
  for (wire::FenceLine* line : {&line_, &second}) {
    ASSERT_TRUE(Eventually([line] { return line->sleepers.load() != 0; }));
    wire::SignalFence(*line, 1);
  }
  Synchronize(engine_, stream);
}

// Two ranks that call two communicators in opposite orders. Each kernel needs that of the other
// rank to run at the same time.
TEST_F(Kernels, OppositeOrdersDoNotBlockEachOther) {
  constexpr uint64_t kRounds = 200;
  Engine& peer = NewEngine(1);
  wire::FenceLine lines[4] = {};  // of both kernels of both ranks
  const auto kernel = [&lines](size_t own, size_t other) {
    return ScriptKernel([&lines, own, other](size_t step, MccsEmulatedWait* wait) {
      if (step == kRounds) return MCCS_EMULATED_FINISHED;
      wire::SignalFence(lines[own], step + 1);
      return AwaitLine(lines[other], step + 1, wait);
    });
  };
  const ScriptKernel first_here = kernel(0, 1);
  const ScriptKernel first_there = kernel(1, 0);
  const ScriptKernel second_here = kernel(2, 3);
  const ScriptKernel second_there = kernel(3, 2);
  const auto a = NewStream();
  const auto b = NewStream();
  const auto c = peer.CreateStream({.blocking = false});
  const auto d = peer.CreateStream({.blocking = false});
  Launch(a, first_here);
  Launch(b, second_here);
  peer.Enqueue(c, second_there.Launch());
  peer.Enqueue(d, first_there.Launch());
  std::thread rank([&] {
    Synchronize(peer, c);
    Synchronize(peer, d);
  });
  Synchronize(engine_, a);
  Synchronize(engine_, b);
  rank.join();
  for (wire::FenceLine& line : lines) EXPECT_EQ(line.sleepers.load(), 0u);
}

size_t ThreadsOfProcess() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST_F(Kernels, FortyRunAtOnceWithoutAThreadEach) {
  constexpr size_t kKernels = 40;
  constexpr uint64_t kRounds = 30;
  const uint64_t seed = std::random_device{}();
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  std::vector<wire::FenceLine> lines(kKernels);
  std::vector<wire::FenceLine> answers(kKernels);
  std::vector<std::unique_ptr<ScriptKernel>> kernels;
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<size_t> order;
  const size_t threads = ThreadsOfProcess();
  for (size_t i = 0; i < kKernels; ++i) {
    kernels.push_back(std::make_unique<ScriptKernel>(Answers(lines[i], kRounds, &answers[i])));
    streams.push_back(NewStream());
    Launch(streams[i], *kernels[i]);
    order.push_back(i);
  }
  std::thread waiter([&] {
    for (const auto& stream : streams) Synchronize(engine_, stream);
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) wire::SignalFence(lines[i], round);
    for (const wire::FenceLine& answer : answers) {
      ASSERT_TRUE(Eventually([&] { return answer.value.load() == round; }));
    }
    EXPECT_LE(ThreadsOfProcess(), threads + 2) << "the waiter and the background thread";
  }
  waiter.join();
  for (wire::FenceLine& line : lines) EXPECT_EQ(line.sleepers.load(), 0u);
}

// Each kernel's only piece ends when both have begun.
TEST_F(Kernels, AWaitingThreadAndTheBackgroundThreadRunTwoKernelsAtOnce) {
  std::atomic<int> running{0};
  const ScriptKernel kernel([&running](size_t, MccsEmulatedWait*) {
    ++running;
    EXPECT_TRUE(Eventually([&running] { return running == 2; }));
    return MCCS_EMULATED_FINISHED;
  });
  const auto first = NewStream();
  const auto second = NewStream();
  Launch(first, kernel);
  Launch(second, kernel);
  const std::vector<Point> both = engine_.PendingOfGpu(0);
  EXPECT_TRUE(engine_.Wait(both));
  EXPECT_EQ(kernel.ended(), 2);
}

TEST_F(Kernels, KernelsTakeTurns) {
  constexpr size_t kPieces = 1000;
  std::atomic<size_t> steps[2] = {};
  const auto kernel = [&steps](size_t self) {
    return ScriptKernel([&steps, self](size_t step, MccsEmulatedWait*) {
      steps[self] = step;
      if (step == kPieces / 2) {
        EXPECT_TRUE(Eventually([&] { return steps[1 - self] > 0; }));
      }
      return step == kPieces ? MCCS_EMULATED_FINISHED : MCCS_EMULATED_AGAIN;
    });
  };
  const ScriptKernel first = kernel(0);
  const ScriptKernel second = kernel(1);
  Launch(NewStream(), first);
  Launch(NewStream(), second);
  EXPECT_TRUE(engine_.Wait(engine_.PendingOfGpu(0)));
  EXPECT_EQ(first.ended() + second.ended(), 2);
}

// Several threads wait for their own streams while the words of all kernels change. A thread that
// advanced a kernel may leave while the thread that needs it sleeps.
TEST_F(Kernels, NoThreadMissesAWord) {
  constexpr size_t kThreads = 3;
  constexpr uint64_t kRounds = 300;
  std::vector<wire::FenceLine> lines(2 * kThreads);
  std::vector<wire::FenceLine> answers(kThreads);
  std::vector<std::thread> threads;
  for (size_t self = 0; self < kThreads; ++self) {
    threads.emplace_back([&, self] {
      const auto stream = NewStream();
      for (uint64_t round = 1; round <= kRounds; ++round) {
        const ScriptKernel kernel([&, self, round](size_t step, MccsEmulatedWait* wait) {
          if (step == 2) return MCCS_EMULATED_FINISHED;
          wire::SignalFence(answers[self], 2 * round + step);
          return AwaitLine(lines[2 * self + step], round, wait);
        });
        Launch(stream, kernel);
        Synchronize(engine_, stream);
      }
    });
  }
  std::atomic<int> slow{0};
  std::vector<std::thread> signallers;
  for (size_t other = 0; other < kThreads; ++other) {
    signallers.emplace_back([&, other] {
      std::mt19937_64 random(other);
      for (uint64_t round = 1; round <= kRounds; ++round) {
        for (size_t step = 0; step < 2; ++step) {
          const auto start = Clock::now();
          ASSERT_TRUE(Eventually([&] { return answers[other].value.load() >= 2 * round + step; }));
          slow += Clock::now() - start > milliseconds(15) ? 1 : 0;
          if (random() % 8 == 0) {  // when all threads have fallen asleep
            ASSERT_TRUE(Eventually([&] { return lines[2 * other + step].sleepers.load() != 0; }));
          }
          wire::SignalFence(lines[2 * other + step], round);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::thread& thread : signallers) thread.join();
  // A missed word costs at least 20 ms, after which the engine looks again by itself. A busy
  // machine delays some rounds as much.
  EXPECT_LT(slow, static_cast<int>(kThreads * kRounds / 5));
  for (wire::FenceLine& line : lines) EXPECT_EQ(line.sleepers.load(), 0u);
}

// A query advances a kernel while a waiting thread sleeps on the kernel's old word. That thread
// then sleeps on the new one.
TEST_F(Kernels, SleepingThreadsLearnANewWordFromAQuery) {
  constexpr uint64_t kRounds = 40;
  wire::FenceLine lines[2] = {};
  const ScriptKernel kernel([&lines](size_t step, MccsEmulatedWait* wait) {
    if (step == 2 * kRounds) return MCCS_EMULATED_FINISHED;
    return AwaitLine(lines[step % 2], step / 2 + 1, wait);
  });
  const Point done = Launch(NewStream(), kernel);
  std::thread waiter([&] { engine_.Wait({&done, 1}); });
  uint64_t slow = 0;
  for (size_t step = 0; step < 2 * kRounds; ++step) {
    wire::FenceLine& line = lines[step % 2];
    const auto start = Clock::now();
    ASSERT_TRUE(Eventually([&line] { return line.sleepers.load() != 0; }));
    slow += Clock::now() - start > milliseconds(15) ? 1 : 0;
    line.value.store(step / 2 + 1);  // wakes no thread
    engine_.Poll({&done, 1});
  }
  waiter.join();
  // Without a notification the thread would look again by itself, after 20 ms.
  EXPECT_LT(slow, kRounds);
}

// Three engines, like processes, pass tokens by kernels. They randomly wait, query, or leave the
// work to the background thread.
TEST_F(Kernels, TokensPassInEveryWaitMode) {
  constexpr size_t kEngines = 3;
  constexpr uint64_t kRounds = 300;
  constexpr size_t kKernels = 2;  // at once, on two streams
  const uint64_t seed = std::random_device{}();
  printf("seed %llu\n", static_cast<unsigned long long>(seed));
  wire::FenceLine lines[kEngines][kKernels] = {};
  std::vector<std::thread> threads;
  for (size_t self = 0; self < kEngines; ++self) {
    threads.emplace_back([&, self] {
      Engine& engine = NewEngine(1);
      std::mt19937_64 random(seed + self);
      std::vector<std::shared_ptr<Stream>> streams(kKernels);
      for (auto& stream : streams) stream = engine.CreateStream({.blocking = false});
      std::vector<std::unique_ptr<ScriptKernel>> kernels;
      for (uint64_t round = 1; round <= kRounds; ++round) {
        std::vector<Point> points;
        for (size_t i = 0; i < kKernels; ++i) {
          const uint64_t wanted = self == 0 ? round - 1 : round;
          wire::FenceLine* before = &lines[(self + kEngines - 1) % kEngines][i];
          wire::FenceLine* own = &lines[self][i];
          kernels.push_back(
              std::make_unique<ScriptKernel>([=](size_t step, MccsEmulatedWait* wait) {
                if (step == 0) return AwaitLine(*before, wanted, wait);
                wire::SignalFence(*own, round);
                return MCCS_EMULATED_FINISHED;
              }));
          points.push_back(engine.Enqueue(streams[i], kernels.back()->Launch()));
        }
        const uint64_t mode = random() % 3;
        if (mode == 0) engine.Wait(points);
        if (mode == 1) {
          ASSERT_TRUE(Eventually([&] { return engine.Poll(points); }));
        }
      }
      for (const auto& stream : streams) Synchronize(engine, stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& of_engine : lines) {
    for (wire::FenceLine& line : of_engine) {
      EXPECT_EQ(line.value.load(), kRounds);
      EXPECT_EQ(line.sleepers.load(), 0u);
    }
  }
}

std::chrono::nanoseconds ProcessorTime(clockid_t clock) {
  timespec used{};
  clock_gettime(clock, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// The processor time of all threads but this one.
std::chrono::nanoseconds OthersTime() {
  return ProcessorTime(CLOCK_PROCESS_CPUTIME_ID) - ProcessorTime(CLOCK_THREAD_CPUTIME_ID);
}

TEST_F(Kernels, AWaitingKernelUsesNoProcessorTime) {
  static constexpr milliseconds kSpan{300};
  constexpr milliseconds kLittle{15};
  const ScriptKernel kernel(Answers(line_, 2));
  const auto stream = NewStream();
  Launch(stream, kernel);
  const auto used_asleep = [&] {
    EXPECT_TRUE(Eventually([this] { return line_.sleepers.load() != 0; }));
    const auto before = OthersTime();
    const auto until = Clock::now() + kSpan;
    EXPECT_TRUE(Eventually([&] { return Clock::now() > until; }));
    return OthersTime() - before;
  };
  EXPECT_LT(used_asleep(), kLittle) << "only the background thread watches";
  wire::SignalFence(line_, 1);
  std::thread waiter([&] { Synchronize(engine_, stream); });
  EXPECT_LT(used_asleep(), kLittle) << "a thread waits";
  wire::SignalFence(line_, 2);
  waiter.join();
}

TEST_F(Kernels, KernelsStopAtProcessExit) {
  const ScriptKernel waits(Answers(line_, 1));
  const ScriptKernel never(Answers(line_, 0));
  const auto stream = NewStream();
  const Point blocked = Launch(stream, waits);
  ASSERT_TRUE(Eventually([&] { return waits.advanced() == 1; }));
  std::thread waiter([&] { EXPECT_FALSE(engine_.Wait({&blocked, 1})); });
  engine_.OnProcessExit();
  waiter.join();
  wire::SignalFence(line_, 1);
  EXPECT_FALSE(engine_.Wait({&blocked, 1}));
  const Point late = Launch(NewStream(), never);
  EXPECT_FALSE(engine_.Wait({&late, 1}));
  EXPECT_FALSE(engine_.Poll({&late, 1}));
  EXPECT_EQ(waits.advanced(), 1);
  EXPECT_EQ(waits.ended(), 0);
  EXPECT_EQ(never.begun(), 0);
  const Point other = engine_.Enqueue(NewStream(), WriteWord{PlainWord(&word_), 1});
  EXPECT_TRUE(engine_.Wait({&other, 1})) << "other work runs";
}

TEST_F(Kernels, TheExitWaitsForAPieceThatRuns) {
  std::atomic<bool> entered{false};
  std::atomic<bool> left{false};
  const ScriptKernel kernel([&](size_t, MccsEmulatedWait*) {
    if (entered.exchange(true)) return MCCS_EMULATED_AGAIN;
    const auto until = Clock::now() + milliseconds(20);
    while (Clock::now() < until) std::this_thread::yield();
    left = true;
    return MCCS_EMULATED_AGAIN;
  });
  Launch(NewStream(), kernel);
  ASSERT_TRUE(Eventually([&] { return entered.load(); }));
  engine_.OnProcessExit();
  EXPECT_TRUE(left);
  const int advanced = kernel.advanced();
  std::this_thread::yield();
  EXPECT_EQ(kernel.advanced(), advanced);
}

}  // namespace engine_kernels_test
}  // namespace mccs::emulation
