// Hands jobs from thread to thread without locks: any thread puts one in, one thread takes all.
// Linked through the jobs themselves, so that a put never fails; the quotas of buffers
// (service/frontend/buffer_quota.h) and MemoryMapper::kMostClosing bound how many there are.
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
    // Pairs with the exchange in TakeAll: what the job has done is visible there. Sequentially
    // consistent for the sleeper's look at empty().
    while (!newest_.compare_exchange_weak(raw->next_, raw)) {
    }
  }

  // THREAD: the taker. In the order in which they were put.
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
