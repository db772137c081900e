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
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "service/device/bounded_queue.h"
#include "service/device/mem_op.h"
#include "service/device/memory_meter.h"

namespace mccs {

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
