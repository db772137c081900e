// Round-robin queue of jobs: by tenant, then by process of the tenant; FIFO within a process. A
// tenant with thousands of jobs delays another tenant's job by one piece.
//
// THREAD: one.
#ifndef MCCS_SERVICE_DEVICE_FAIR_JOB_QUEUE_H_
#define MCCS_SERVICE_DEVICE_FAIR_JOB_QUEUE_H_

#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "service/device/mapping_runner.h"

namespace mccs {

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

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_FAIR_JOB_QUEUE_H_
