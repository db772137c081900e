// Threads that run large MemOps in parallel with the owning engine.
//
//   owner ── Start ──► jobs ──► worker ──► done ── Collect ──► owner
//                       └────── Help: the owner runs one itself, part by part ──► owner
//
// An idle worker spins for some microseconds and then sleeps. Waking it costs tens of microseconds,
// so it is woken only if more jobs are queued than the owner runs itself. The owner must call Help
// while jobs are outstanding.
#ifndef MCCS_SERVICE_DEVICE_WORKER_POOL_H_
#define MCCS_SERVICE_DEVICE_WORKER_POOL_H_

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include "service/device/mem_op.h"
#include "service/device/memory_meter.h"

namespace mccs {

// A bounded lock-free queue for several producers and several consumers (Dmitry Vyukov's design:
// every cell stores the number of the turn in which it may be written or read).
//
//   cell i:  turn == p      empty, the producer with ticket p may write
//            turn == p + 1  full, the consumer with ticket p may read; then turn = p + capacity

// THREAD: any, except construction and destruction. Never blocks.
template <typename T>
class BoundedQueue {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Holds at least `capacity` entries (the next power of two).
  explicit BoundedQueue(size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? 2 : capacity) - 1),
        cells_(std::make_unique<Cell[]>(mask_ + 1)) {
    for (size_t i = 0; i <= mask_; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  // Returns false if the queue is full.
  bool Push(const T& value) {
    uint64_t ticket = head_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[ticket & mask_];
      // Pairs with the release store in Pop: the previous reader of the cell has finished.
      const uint64_t turn = cell.turn.load(std::memory_order_acquire);
      const auto ahead = static_cast<int64_t>(turn - ticket);
      if (ahead < 0) return false;
      if (ahead > 0) {
        ticket = head_.load(std::memory_order_relaxed);
      } else if (head_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) {
        cell.value = value;
        // Pairs with the acquire load in Pop: publishes the value.
        cell.turn.store(ticket + 1, std::memory_order_release);
        return true;
      }
    }
  }

  // Returns false if the queue is empty.
  bool Pop(T& value) {
    uint64_t ticket = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[ticket & mask_];
      // Pairs with the release store in Push.
      const uint64_t turn = cell.turn.load(std::memory_order_acquire);
      const auto ahead = static_cast<int64_t>(turn - (ticket + 1));
      if (ahead < 0) return false;
      if (ahead > 0) {
        ticket = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) {
        value = cell.value;
        // Pairs with the acquire load in Push.
        cell.turn.store(ticket + mask_ + 1, std::memory_order_release);
        return true;
      }
    }
  }

 private:
  static constexpr size_t kLineBytes = 64;

  struct Cell {
    std::atomic<uint64_t> turn;
    T value;
  };

  const size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(kLineBytes) std::atomic<uint64_t> head_{0};  // next ticket of producers
  alignas(kLineBytes) std::atomic<uint64_t> tail_{0};  // next ticket of consumers
};

// THREAD: the owner only; Start, Collect and Help never sleep.
class WorkerPool {
 public:
  // `capacity`: maximum number of jobs started and not yet collected. `meter`: measures the owner's
  // own work; null: not measured. LIFETIME: it outlives this.
  WorkerPool(int workers, size_t capacity, MemoryMeter* meter = nullptr);
  // Waits for running jobs and finishes the one that the owner has started; drops jobs that have
  // not started.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // REQUIRES: fewer than `capacity` jobs are outstanding.
  void Start(const MemOp& op, MemToken token);

  // Tokens of jobs that workers have finished.
  size_t Collect(std::span<MemToken> finished);

  struct HelpResult {
    bool worked = false;               // false: no job was queued
    std::optional<MemToken> finished;  // set if this was the job's last part
  };
  // Runs the next part (MemOpParts) of a queued job in this thread.
  HelpResult Help();

 private:
  struct Job {
    MemOp op;
    MemToken token;
  };

  bool TakeForOwner();
  void RunPart();
  void WorkerLoop();
  std::optional<Job> Take();
  std::optional<Job> SpinForJob();
  void Sleep();

  MemoryMeter* const meter_;
  // Used by the owner only:
  std::deque<Job> overflow_;  // for Help; jobs_ was full
  MemToken token_ = 0;        // of the job in parts_
  MemOpParts parts_;

  BoundedQueue<Job> jobs_;
  BoundedQueue<MemToken> done_;
  // Jobs in the queue. Start adds and then reads sleepers_; a worker adds to sleepers_ and then
  // reads this. All four are sequentially consistent, so one of the two sees the other.
  std::atomic<int64_t> queued_{0};
  std::atomic<int> sleepers_{0};
  // Futex word, incremented by every wake-up.
  std::atomic<uint32_t> wake_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_WORKER_POOL_H_
