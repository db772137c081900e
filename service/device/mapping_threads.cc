#include "service/device/mapping_threads.h"

#include <pthread.h>

#include <utility>

#include "base/blocked_signals.h"

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

MappingThreads::MappingThreads(std::function<void()> wake)
    : wake_engine_(std::move(wake)),
      long_(*this, "mccs-unmap-big", nullptr),
      map_(*this, "mccs-map", &long_),
      unmap_(*this, "mccs-unmap", &long_) {}

MappingThreads::~MappingThreads() {
  map_.Stop();
  unmap_.Stop();
  long_.Stop();
}

void MappingThreads::Start(Lane lane, std::unique_ptr<MappingJob> job) {
  (lane == Lane::kMap ? map_ : unmap_).Add(std::move(job));
}

std::unique_ptr<MappingJob> MappingThreads::TakeFinished() {
  if (taken_.empty()) {
    if (finished_.empty()) return nullptr;
    for (std::unique_ptr<MappingJob>& job : finished_.TakeAll()) taken_.push_back(std::move(job));
  }
  std::unique_ptr<MappingJob> job = std::move(taken_.front());
  taken_.pop_front();
  return job;
}

// ---- One thread --------------------------------------------------------------------------------

MappingThreads::Worker::Worker(MappingThreads& threads, const char* name, Worker* longer)
    : threads_(threads), longer_(longer) {
  // Only the daemon's main thread handles signals.
  const BlockedSignals blocked;
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), name);
}

void MappingThreads::Worker::Add(std::unique_ptr<MappingJob> job) {
  inbox_.Put(std::move(job));
  wake_.fetch_add(1);  // pairs with the load in Sleep
  wake_.notify_one();
}

void MappingThreads::Worker::Stop() {
  stop_.store(true);  // pairs with the loads in Run and Sleep
  wake_.fetch_add(1);
  wake_.notify_one();
  thread_.join();
}

void MappingThreads::Worker::Run() {
  while (!stop_.load()) {
    for (std::unique_ptr<MappingJob>& job : inbox_.TakeAll()) queue_.Push(std::move(job));
    if (std::unique_ptr<MappingJob> job = queue_.Pop()) {
      Work(std::move(job));
    } else {
      Sleep();
    }
  }
}

void MappingThreads::Worker::Work(std::unique_ptr<MappingJob> job) {
  switch (job->Step()) {
    case MappingJob::Progress::kMore:
      return queue_.Return(std::move(job));
    case MappingJob::Progress::kLong:
      if (longer_ == nullptr) return queue_.Return(std::move(job));
      return longer_->Add(std::move(job));
    case MappingJob::Progress::kDone:
      threads_.finished_.Put(std::move(job));
      return threads_.wake_engine_();
  }
}

void MappingThreads::Worker::Sleep() {
  const uint32_t seen = wake_.load();
  if (inbox_.empty() && !stop_.load()) wake_.wait(seen);
}

}  // namespace mccs
