// The queue between engine and workers: its bound, its order, and several threads at both ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "service/device/worker_pool.h"

namespace mccs {
namespace bounded_queue_test {

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
    EXPECT_TRUE(
        std::all_of(of_producer.begin(), of_producer.end(), [](int times) { return times == 1; }));
  }
  Entry none;
  EXPECT_FALSE(queue.Pop(none));
}

}  // namespace bounded_queue_test
}  // namespace mccs
