#include "service/frontend/foreign_descriptors.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <utility>

namespace mccs {

struct ForeignDescriptors::Threads {
  std::atomic<int> running{0};
};

namespace {

// What one thread has to do. Whoever is last lets go of `running`.
struct Burial {
  std::shared_ptr<void> owner;
  std::atomic<int>* running;
  std::vector<int> descriptors;
};

void* Close(void* burial) {
  const std::unique_ptr<Burial> own(static_cast<Burial*>(burial));
  for (const int fd : own->descriptors) close(fd);
  own->running->fetch_sub(1);
  return nullptr;
}

}  // namespace

ForeignDescriptors::ForeignDescriptors() : threads_(std::make_shared<Threads>()) {}

void ForeignDescriptors::Bury(std::vector<UniqueFd> descriptors) {
  for (UniqueFd& fd : descriptors) {
    if (fd.valid()) open_.push_back(fd.Release());
  }
  if (open_.empty() || threads_->running.load() >= kMostThreads) return;
  CloseElsewhere(&open_);
}

// False, with the descriptors where they are, when the system gives no thread.
bool ForeignDescriptors::CloseElsewhere(std::vector<int>* descriptors) {
  auto burial = std::make_unique<Burial>(
      Burial{.owner = threads_, .running = &threads_->running, .descriptors = {}});
  burial->descriptors.swap(*descriptors);
  threads_->running.fetch_add(1);
  // The daemon's signals are for its main thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool made = pthread_create(&thread, nullptr, &Close, burial.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (made) {
    (void)burial.release();  // the thread's
    pthread_detach(thread);
    return true;
  }
  threads_->running.fetch_sub(1);
  burial->descriptors.swap(*descriptors);
  return false;
}

}  // namespace mccs
