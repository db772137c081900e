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

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "service/device/fair_job_queue.h"
#include "service/device/job_mailbox.h"
#include "service/device/mapping_runner.h"

namespace mccs {

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
