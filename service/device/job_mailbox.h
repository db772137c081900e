// Passes jobs between threads without locks: any thread puts jobs in, one thread takes them all.
// The jobs themselves are the links, so Put never fails. The quotas of buffers
// (service/frontend/buffer_quota.h) and MemoryMapper::kMaxClosing bound their number.
#ifndef MCCS_SERVICE_DEVICE_JOB_MAILBOX_H_
#define MCCS_SERVICE_DEVICE_JOB_MAILBOX_H_

#include <atomic>
#include <memory>
#include <vector>

#include "service/device/mapping_runner.h"

namespace mccs {

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

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_JOB_MAILBOX_H_
