// The workers of the host-memory device: every started job is returned once. A pool that is
// destroyed waits for running jobs and drops the rest.
#include "service/device/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <thread>
#include <vector>

namespace mccs {
namespace worker_pool_test {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr float kUntouched = -1;
// Timeout for events that take milliseconds, or never happen.
constexpr std::chrono::seconds kLongEnough{20};

// Copies of `elements` floats, each with its own source and destination. A job's token is its
// index.
class Copies {
 public:
  explicit Copies(size_t elements) : elements_(elements) {}

  void Start(WorkerPool& pool) {
    Copy& copy = copies_.emplace_back();
    copy.from.assign(elements_, static_cast<float>(copies_.size()));
    copy.to.assign(elements_, kUntouched);
    copy.source[0] = {.address = reinterpret_cast<const std::byte*>(copy.from.data())};
    copy.destination[0] = reinterpret_cast<std::byte*>(copy.to.data());
    pool.Start({.sources = copy.source,
                .destinations = copy.destination,
                .elements = elements_,
                .type = DataType::kFloat32},
               copies_.size() - 1);
  }

  bool Done(size_t job) const { return copies_[job].to == copies_[job].from; }
  bool Untouched(size_t job) const {
    const std::vector<float>& to = copies_[job].to;
    return std::ranges::all_of(to, [](float value) { return value == kUntouched; });
  }
  size_t size() const { return copies_.size(); }

 private:
  struct Copy {
    std::vector<float> from, to;
    std::array<MemSource, 1> source;
    std::array<std::byte*, 1> destination;
  };
  const size_t elements_;
  std::deque<Copy> copies_;  // stable addresses
};

// Collects, without helping, until at least `jobs` tokens have arrived or a timeout.
std::vector<MemToken> CollectOnly(WorkerPool& pool, size_t jobs) {
  std::vector<MemToken> tokens;
  std::array<MemToken, 4> some;
  const auto limit = std::chrono::steady_clock::now() + kLongEnough;
  while (tokens.size() < jobs && std::chrono::steady_clock::now() < limit) {
    const size_t count = pool.Collect(some);
    tokens.insert(tokens.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(count));
    if (count == 0) std::this_thread::yield();
  }
  return tokens;
}

// Collects the token of the last outstanding job, for which possibly no worker woke up.
void FinishLast(WorkerPool& pool, std::vector<MemToken>& tokens) {
  const std::optional<MemToken> helped = pool.Help().finished;
  for (const MemToken token : helped ? std::vector{*helped} : CollectOnly(pool, 1)) {
    tokens.push_back(token);
  }
}

// ---- The owner alone ----------------------------------------------------------------------------

TEST(WorkerPool, TheOwnerRunsQueuedJobsInTheirOrder) {
  WorkerPool pool(0, 8);
  Copies copies(10);
  for (int i = 0; i < 8; ++i) copies.Start(pool);  // the capacity
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(copies.Untouched(i)) << "it has not started before";
    EXPECT_EQ(pool.Help().finished, i);
    EXPECT_TRUE(copies.Done(i));
  }
}

TEST(WorkerPool, WithoutJobsThereIsNothingToRunOrCollect) {
  WorkerPool pool(2, 8);
  std::array<MemToken, 4> tokens;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(pool.Help().worked);
    EXPECT_EQ(pool.Collect(tokens), 0u);
  }
}

TEST(WorkerPool, AJobThatTheOwnerRanIsNotCollectedToo) {
  WorkerPool pool(0, 4);
  Copies copies(10);
  copies.Start(pool);
  ASSERT_TRUE(pool.Help().finished.has_value());
  std::array<MemToken, 4> tokens;
  EXPECT_EQ(pool.Collect(tokens), 0u);
  EXPECT_FALSE(pool.Help().worked);
}

// The engine must serve all tenants between two parts of one tenant's large job.
TEST(WorkerPool, TheOwnerRunsALargeJobAPartAtATime) {
  constexpr size_t kParts = 16;
  WorkerPool pool(0, 8);
  Copies copies(kParts * MemOpParts::kPartBytes / (2 * sizeof(float)));
  copies.Start(pool);
  copies.Start(pool);
  for (size_t job = 0; job < 2; ++job) {
    for (size_t i = 1; i < kParts; ++i) {
      const WorkerPool::HelpResult helped = pool.Help();
      ASSERT_TRUE(helped.worked);
      ASSERT_FALSE(helped.finished.has_value()) << "part " << i;
      EXPECT_FALSE(copies.Done(job));
    }
    EXPECT_EQ(pool.Help().finished, job);
    EXPECT_TRUE(copies.Done(job));
  }
  EXPECT_FALSE(pool.Help().worked);
}

TEST(WorkerPool, FinishesTheOwnersJobOnDestruction) {
  Copies copies(4 * MemOpParts::kPartBytes / (2 * sizeof(float)));
  {
    WorkerPool pool(0, 8);
    copies.Start(pool);
    pool.Help();
  }
  EXPECT_TRUE(copies.Done(0));
}

// ---- Workers ------------------------------------------------------------------------------------

TEST(WorkerPool, OneWorkerTakesJobsInTheirOrder) {
  WorkerPool pool(1, 64);
  Copies copies(1000);
  for (int i = 0; i < 64; ++i) copies.Start(pool);
  std::vector<MemToken> tokens = CollectOnly(pool, 63);
  if (tokens.size() < 64) FinishLast(pool, tokens);
  ASSERT_EQ(tokens.size(), 64u);
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i], i);
    EXPECT_TRUE(copies.Done(i)) << "finished, but its writes are not visible";
  }
}

TEST(WorkerPool, CollectGivesNoMoreThanAskedFor) {
  WorkerPool pool(1, 8);
  Copies copies(10);
  for (int i = 0; i < 4; ++i) copies.Start(pool);
  std::vector<MemToken> tokens;
  EXPECT_EQ(pool.Collect({}), 0u);
  const auto limit = std::chrono::steady_clock::now() + kLongEnough;
  while (tokens.size() < 3 && std::chrono::steady_clock::now() < limit) {
    MemToken one[1];
    if (pool.Collect(one) == 1) tokens.push_back(one[0]);
  }
  FinishLast(pool, tokens);
  EXPECT_THAT(tokens, ElementsAre(0, 1, 2, 3));
}

// With more workers than processors, a worker is often preempted while it takes a job from the
// queue, and its cell is still in use when the owner reaches it again.
TEST(WorkerPool, ReturnsEveryTokenOnceWithOwnerAndWorkers) {
  constexpr size_t kJobs = 1000, kCapacity = 16;
  for (const int workers : {1, 3, 12}) {
    WorkerPool pool(workers, kCapacity);
    Copies copies(300);
    std::map<MemToken, int> returned;
    size_t out = 0;
    std::array<MemToken, 4> tokens;
    while (returned.size() < kJobs) {
      while (out < kCapacity && copies.size() < kJobs) {
        copies.Start(pool);
        ++out;
      }
      const size_t count = pool.Collect(tokens);
      for (size_t i = 0; i < count; ++i) ++returned[tokens[i]];
      out -= count;
      if (count > 0) continue;
      if (const auto helped = pool.Help().finished) {
        ++returned[*helped];
        --out;
      }
    }
    EXPECT_EQ(out, 0u);
    for (const auto& [token, times] : returned) {
      ASSERT_EQ(times, 1) << token;
      ASSERT_TRUE(copies.Done(token)) << token;
    }
  }
}

// Two queued jobs are one more than the owner runs itself: a worker wakes up for them, whenever it
// fell asleep. If this thread is preempted between its two calls of Start, a worker that is still
// awake can finish the first job and fall asleep; then the second job is alone, and no worker wakes
// up for it.
TEST(WorkerPool, ASleepingWorkerWakesUpForTheSecondJob) {
  WorkerPool pool(2, 8);
  for (int round = 0; round < 300; ++round) {
    Copies copies(10);
    copies.Start(pool);
    copies.Start(pool);
    std::vector<MemToken> tokens = CollectOnly(pool, 1);
    ASSERT_FALSE(tokens.empty()) << "round " << round << ": no worker woke up";
    if (tokens.size() < 2) FinishLast(pool, tokens);
    EXPECT_THAT(tokens, UnorderedElementsAre(0, 1)) << "round " << round;
    EXPECT_TRUE(copies.Done(0) && copies.Done(1));
    // From no pause to one after which all workers are asleep.
    const auto pause = std::chrono::steady_clock::now() + std::chrono::microseconds(round);
    while (std::chrono::steady_clock::now() < pause) {
    }
  }
}

// ---- The end ------------------------------------------------------------------------------------

TEST(WorkerPool, DropsJobsThatHaveNotStarted) {
  Copies copies(10);
  {
    WorkerPool pool(0, 4);
    for (int i = 0; i < 4; ++i) copies.Start(pool);
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(copies.Untouched(i));
}

TEST(WorkerPool, WaitsForRunningJobsOnDestruction) {
  for (int round = 0; round < 12; ++round) {
    Copies copies(50'000);
    {
      WorkerPool pool(2, 16);
      for (int i = 0; i < 16; ++i) copies.Start(pool);
      if (round % 3 == 1) CollectOnly(pool, 1);
      if (round % 3 == 2) pool.Help();
    }
    for (size_t i = 0; i < copies.size(); ++i) {
      EXPECT_TRUE(copies.Done(i) || copies.Untouched(i)) << "job " << i << " is incomplete";
    }
  }
}

TEST(WorkerPool, CanBeDestroyedAtAnyTime) {
  for (int round = 0; round < 200; ++round) {
    Copies copies(10);
    {
      WorkerPool pool(3, 4);
      for (int i = 0; i < round % 4; ++i) copies.Start(pool);
      const auto pause = std::chrono::steady_clock::now() + std::chrono::microseconds(round);
      while (std::chrono::steady_clock::now() < pause) {
      }
    }
    for (size_t i = 0; i < copies.size(); ++i) {
      EXPECT_TRUE(copies.Done(i) || copies.Untouched(i))
          << "round " << round << ": job " << i << " is incomplete";
    }
  }
}

// ---- The queue of a pool ------------------------------------------------------------------------

// The queue between engine and workers: its bound, its order, and several threads at both ends.

TEST(BoundedQueue, HoldsItsCapacityAndThenReportsFull) {
  for (const size_t capacity : {0u, 1u, 2u, 3u, 8u, 1000u}) {
    BoundedQueue<size_t> queue(capacity);
    size_t held = 0;
    while (held <= 4 * capacity + 4 && queue.Push(held)) ++held;
    EXPECT_GE(held, capacity);
    EXPECT_LE(held, 2 * capacity + 2) << "unbounded";
    EXPECT_FALSE(queue.Push(0)) << "still full";
    size_t value = 0;
    ASSERT_TRUE(queue.Pop(value));
    EXPECT_TRUE(queue.Push(held)) << "room for as many entries as were taken";
    EXPECT_FALSE(queue.Push(0));
  }
}

TEST(BoundedQueue, DoesNotStoreARejectedEntry) {
  BoundedQueue<int> queue(2);
  ASSERT_TRUE(queue.Push(1));
  ASSERT_TRUE(queue.Push(2));
  ASSERT_FALSE(queue.Push(3));
  int value = 0;
  ASSERT_TRUE(queue.Pop(value));
  ASSERT_TRUE(queue.Pop(value));
  EXPECT_EQ(value, 2);
  EXPECT_FALSE(queue.Pop(value));
}

TEST(BoundedQueue, AnEmptyQueueChangesNothing) {
  BoundedQueue<int> queue(4);
  int value = 42;
  EXPECT_FALSE(queue.Pop(value));
  EXPECT_EQ(value, 42);
  ASSERT_TRUE(queue.Push(1));
  ASSERT_TRUE(queue.Pop(value));
  value = 42;
  EXPECT_FALSE(queue.Pop(value)) << "empty again";
  EXPECT_EQ(value, 42);
}

TEST(BoundedQueue, IsFifoAcrossWraparound) {
  BoundedQueue<int> queue(4);
  int pushed = 0, popped = 0;
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i <= round % 4; ++i) ASSERT_TRUE(queue.Push(pushed++));
    for (int i = 0; i <= round % 4; ++i) {
      int value = -1;
      ASSERT_TRUE(queue.Pop(value));
      ASSERT_EQ(value, popped++);
    }
  }
}

// Each entry is a thread's n-th, written twice, so that a torn entry is detected.
struct Entry {
  uint32_t producer;
  uint32_t number;
  std::array<uint64_t, 6> copies;
};

TEST(BoundedQueue, SeveralThreadsLoseAndDuplicateNothing) {
  constexpr uint32_t kProducers = 3, kConsumers = 2, kEach = 20'000;
  BoundedQueue<Entry> queue(8);
  std::vector<std::vector<Entry>> got(kConsumers);
  std::atomic<uint32_t> taken{0};
  std::vector<std::thread> threads;
  for (uint32_t p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      for (uint32_t n = 0; n < kEach; ++n) {
        Entry entry{.producer = p, .number = n, .copies = {}};
        entry.copies.fill(uint64_t{p} << 32 | n);
        while (!queue.Push(entry)) std::this_thread::yield();
      }
    });
  }
  for (uint32_t c = 0; c < kConsumers; ++c) {
    threads.emplace_back([&, c] {
      Entry entry;
      while (taken.load() < kProducers * kEach) {
        if (queue.Pop(entry)) {
          got[c].push_back(entry);
          taken.fetch_add(1);
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  std::vector<std::vector<int>> seen(kProducers, std::vector<int>(kEach, 0));
  for (const std::vector<Entry>& entries : got) {
    std::array<int64_t, kProducers> last;
    last.fill(-1);
    for (const Entry& entry : entries) {
      ASSERT_LT(entry.producer, kProducers);
      ASSERT_LT(entry.number, kEach);
      ASSERT_GT(static_cast<int64_t>(entry.number), last[entry.producer])
          << "one producer's entries are in order";
      last[entry.producer] = entry.number;
      ++seen[entry.producer][entry.number];
      for (const uint64_t copy : entry.copies)
        ASSERT_EQ(copy, uint64_t{entry.producer} << 32 | entry.number);
    }
  }
  for (const std::vector<int>& of_producer : seen) {
    EXPECT_TRUE(std::ranges::all_of(of_producer, [](int times) { return times == 1; }));
  }
  Entry none;
  EXPECT_FALSE(queue.Pop(none));
}

}  // namespace worker_pool_test
}  // namespace mccs
