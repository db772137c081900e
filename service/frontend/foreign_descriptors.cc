#include "service/frontend/foreign_descriptors.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace mccs {

struct ForeignDescriptors::Shared {
  std::atomic<int> running{0};
  Count unclosed{0};
};

// The task of one closing thread.
struct ForeignDescriptors::CloseTask {
  std::shared_ptr<Shared> shared;
  std::vector<Descriptor> descriptors;
};

ForeignDescriptors::ForeignDescriptors() : shared_(std::make_shared<Shared>()) {}

void ForeignDescriptors::CloseAsync(const std::string& tenant, std::vector<UniqueFd> descriptors) {
  absl::erase_if(unclosed_, [](const auto& entry) { return entry.second->load() == 0; });
  std::shared_ptr<Count>& own = unclosed_[tenant];
  if (own == nullptr) own = std::make_shared<Count>(0);
  for (UniqueFd& fd : descriptors) {
    if (!fd.valid()) continue;
    open_.push_back({fd.Release(), own});
    own->fetch_add(1);
    shared_->unclosed.fetch_add(1);
  }
  CloseOpen();
}

bool ForeignDescriptors::IsFull(const std::string& tenant) {
  if (shared_->unclosed.load() < kMaxPerTenant) return false;
  CloseOpen();
  const auto own = unclosed_.find(tenant);
  return IsFull() || (own != unclosed_.end() && own->second->load() >= kMaxPerTenant);
}

bool ForeignDescriptors::IsFull() {
  if (shared_->unclosed.load() < kMaxTotal) return false;
  CloseOpen();
  return true;
}

void ForeignDescriptors::CloseOpen() {
  if (open_.empty() || shared_->running.load() >= kMaxThreads) return;
  CloseOnThread(&open_);
}

void* ForeignDescriptors::Close(void* task) {
  const std::unique_ptr<CloseTask> own(static_cast<CloseTask*>(task));
  for (const Descriptor& buried : own->descriptors) {
    close(buried.fd);
    buried.of_tenant->fetch_sub(1);
    own->shared->unclosed.fetch_sub(1);
  }
  own->shared->running.fetch_sub(1);
  return nullptr;
}

// Returns false, without taking the descriptors, if no thread can be created.
bool ForeignDescriptors::CloseOnThread(std::vector<Descriptor>* descriptors) {
  auto task = std::make_unique<CloseTask>(CloseTask{.shared = shared_, .descriptors = {}});
  task->descriptors.swap(*descriptors);
  shared_->running.fetch_add(1);
  // Only the daemon's main thread handles signals.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool made = pthread_create(&thread, nullptr, &Close, task.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (made) {
    (void)task.release();  // owned by the thread
    pthread_detach(thread);
    return true;
  }
  shared_->running.fetch_sub(1);
  task->descriptors.swap(*descriptors);
  return false;
}

}  // namespace mccs
