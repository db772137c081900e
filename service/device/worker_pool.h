// Threads that run large MemOps beside the owning engine.
//
//   owner ── Start ──► jobs ──► worker ──► done ── Collect ──► owner
//                       └─────────────── Help: the owner runs one itself, ──► owner
//                                        a part with each call
//
// A worker that finds nothing spins for some microseconds and then sleeps. Waking it costs tens of
// microseconds, so it is woken only when more is queued than the owner takes itself; the owner must
// go on calling Help as long as jobs are out.
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
#include "service/device/mem_op_parts.h"
#include "service/device/pass_meter.h"

namespace mccs {

// THREAD: the owner alone calls; Start, Collect and Help never sleep.
class WorkerPool {
 public:
  // `capacity`: jobs started and not yet collected, at most. `meter`: of what the owner runs
  // itself; null: nobody measures it. LIFETIME: it outlives this.
  WorkerPool(int workers, size_t capacity, PassMeter* meter = nullptr);
  // Waits for jobs that run, and ends the one that the owner has begun; jobs that nobody has begun
  // are dropped.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // REQUIRES: fewer than `capacity` jobs are out.
  void Start(const MemOp& op, MemToken token);

  // Tokens of jobs that workers have finished.
  size_t Collect(std::span<MemToken> finished);

  struct Helped {
    bool worked = false;               // false: no job waits
    std::optional<MemToken> finished;  // the part was the job's last one
  };
  // Runs the next part (MemOpParts) of a queued job in this thread.
  Helped Help();

 private:
  struct Job {
    MemOp op;
    MemToken token;
  };

  bool TakeByOwner();
  void RunPart();
  void WorkerLoop();
  std::optional<Job> Take();
  std::optional<Job> SpinForJob();
  void Sleep();

  PassMeter* const meter_;
  // The owner's own:
  std::deque<Job> kept_;  // for Help; there was no room for them in jobs_
  MemToken token_ = 0;    // of the job that parts_ has begun
  MemOpParts parts_;

  BoundedQueue<Job> jobs_;
  BoundedQueue<MemToken> done_;
  // Jobs in the queue. Start adds and then reads sleepers_; a worker adds to sleepers_ and then
  // reads this. All four sequentially consistent: one of the two sees the other.
  std::atomic<int64_t> queued_{0};
  std::atomic<int> sleepers_{0};
  // Changes with every wake-up; workers sleep on it.
  std::atomic<uint32_t> wake_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_WORKER_POOL_H_
