#include "service/device/fair_job_queue.h"

#include <utility>

namespace mccs {

void FairJobQueue::Push(std::unique_ptr<MappingJob> job) {
  Jobs& jobs = JobsOf(job->owner());
  jobs.push_back(std::move(job));
}

void FairJobQueue::Return(std::unique_ptr<MappingJob> job) {
  Jobs& jobs = JobsOf(job->owner());
  jobs.push_front(std::move(job));
}

FairJobQueue::Jobs& FairJobQueue::JobsOf(const MappingOwner& owner) {
  const auto [tenant, first_of_tenant] = tenants_.try_emplace(owner.tenant);
  if (first_of_tenant) turns_.push_back(owner.tenant);
  const auto [process, first] = tenant->second.processes.try_emplace(owner.process);
  if (first) tenant->second.turns.push_back(owner.process);
  return process->second;
}

std::unique_ptr<MappingJob> FairJobQueue::Pop() {
  if (turns_.empty()) return nullptr;
  std::string name = std::move(turns_.front());
  turns_.pop_front();
  const auto tenant = tenants_.find(name);
  Tenant& own = tenant->second;
  const pid_t number = own.turns.front();
  own.turns.pop_front();
  const auto process = own.processes.find(number);
  std::unique_ptr<MappingJob> job = std::move(process->second.front());
  process->second.pop_front();
  if (process->second.empty()) {
    own.processes.erase(process);
  } else {
    own.turns.push_back(number);
  }
  if (own.processes.empty()) {
    tenants_.erase(tenant);
  } else {
    turns_.push_back(std::move(name));
  }
  return job;
}

}  // namespace mccs
