// The threads that map and unmap tenants' memory for the engine.
//
//   engine ── Start ──► map ────────────────┐
//                   └─► unmap ──kLong──► long ──► finished ── TakeFinished ──► engine
//
// Registrations do not wait for releases, and small releases do not wait for the last step of large
// ones: the kernel frees a whole memory file in one call (259 ms for 2 GiB). All threads sleep when
// idle.
#ifndef MCCS_SERVICE_DEVICE_MAPPING_THREADS_H_
#define MCCS_SERVICE_DEVICE_MAPPING_THREADS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "service/device/memory_mapper.h"

namespace mccs {

// Round-robin queue of jobs: by tenant, then by process of the tenant; FIFO within a process. A
// tenant with thousands of jobs delays another tenant's job by one piece.
//
// THREAD: one.
class FairJobQueue {
 public:
  void Push(std::unique_ptr<MappingJob> job);
  // The next job; null: the queue is empty.
  std::unique_ptr<MappingJob> Pop();
  // Puts back a job from Pop that has more to do: first of its process, after the turns of other
  // tenants and processes.
  void Return(std::unique_ptr<MappingJob> job);

  bool empty() const { return turns_.empty(); }

 private:
  using Jobs = std::deque<std::unique_ptr<MappingJob>>;
  struct Tenant {
    std::map<pid_t, Jobs> processes;
    std::deque<pid_t> turns;  // each of `processes` once
  };
  Jobs& JobsOf(const MappingOwner& owner);

  std::map<std::string, Tenant> tenants_;
  std::deque<std::string> turns_;  // each of tenants_ once
};

// Passes jobs between threads without locks: any thread puts jobs in, one thread takes them all.
// The jobs themselves are the links, so Put never fails. The quotas of buffers
// (service/frontend/buffer_quota.h) and MemoryMapper::kMaxClosing bound their number.
class JobMailbox {
 public:
  JobMailbox() = default;
  JobMailbox(const JobMailbox&) = delete;
  JobMailbox& operator=(const JobMailbox&) = delete;
  ~JobMailbox() { TakeAll(); }

  // THREAD: any.
  void Put(std::unique_ptr<MappingJob> job) {
    MappingJob* const raw = job.release();
    raw->next_ = newest_.load(std::memory_order_relaxed);
    // Pairs with the exchange in TakeAll: publishes what the job has done. Sequentially consistent,
    // for the check of empty() before a sleep.
    while (!newest_.compare_exchange_weak(raw->next_, raw)) {
    }
  }

  // Returns all jobs in the order of Put. THREAD: the taker.
  std::vector<std::unique_ptr<MappingJob>> TakeAll() {
    std::vector<std::unique_ptr<MappingJob>> jobs;
    if (empty()) return jobs;
    MappingJob* job = newest_.exchange(nullptr);
    for (MappingJob* at = job; at != nullptr; at = at->next_) jobs.emplace_back(nullptr);
    for (size_t i = jobs.size(); i > 0; --i) {
      MappingJob* const next = job->next_;
      job->next_ = nullptr;
      jobs[i - 1].reset(job);
      job = next;
    }
    return jobs;
  }

  bool empty() const { return newest_.load() == nullptr; }

 private:
  std::atomic<MappingJob*> newest_{nullptr};
};

class MappingThreads final : public MappingRunner {
 public:
  // `wake` ends the engine's sleep. THREAD of wake: any; it does not block.
  explicit MappingThreads(std::function<void()> wake);
  // Waits for the steps in progress.
  ~MappingThreads() override;

  void Start(Lane lane, std::unique_ptr<MappingJob> job) override;
  std::unique_ptr<MappingJob> TakeFinished() override;

 private:
  class Worker {
   public:
    // `longer`: the worker for kLong; null: this one runs them too.
    Worker(MappingThreads& threads, const char* name, Worker* longer);
    void Add(std::unique_ptr<MappingJob> job);
    void Stop();

   private:
    void Run();
    void Work(std::unique_ptr<MappingJob> job);
    void Sleep();

    MappingThreads& threads_;
    Worker* const longer_;
    JobMailbox inbox_;
    FairJobQueue queue_;
    // Futex word, incremented by every wake-up.
    std::atomic<uint32_t> wake_{0};
    std::atomic<bool> stop_{false};
    std::thread thread_;
  };

  const std::function<void()> wake_engine_;
  JobMailbox finished_;
  std::deque<std::unique_ptr<MappingJob>> taken_;  // from finished_, by the engine
  Worker long_;                                    // outlives the workers that pass jobs to it
  Worker map_;
  Worker unmap_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_MAPPING_THREADS_H_
