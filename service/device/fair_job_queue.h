// Jobs in turn: by tenant, by process of the tenant, and in order within a process. A tenant with
// thousands of them delays another tenant's by one piece.
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
  // The next in turn; null: there is none.
  std::unique_ptr<MappingJob> Pop();
  // One that Pop gave and that has more to do: the first of its process again, behind the turns of
  // other tenants and processes.
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
