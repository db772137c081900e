#include "controller/api/change_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {

ChangeQueue::ChangeQueue() : thread_([this] { Run(); }) {}

ChangeQueue::~ChangeQueue() { Stop(); }

absl::Status ChangeQueue::Add(const std::string& user, Change change) {
  const std::lock_guard lock(mutex_);
  if (stops_) return absl::UnavailableError("the controller stops; try again when it has started");
  const auto own = waiting_.find(user);
  if (own != waiting_.end() && own->second.size() == kMaxOfOneOperator) {
    return absl::ResourceExhaustedError(
        absl::StrCat(own->second.size(), " changes of ", user, " wait already; try again later"));
  }
  if (size_ == kMaxWaiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat(size_, " changes of operators wait already; try again later"));
  }
  waiting_[user].push_back(std::move(change));
  ++size_;
  changed_.notify_all();
  return absl::OkStatus();
}

void ChangeQueue::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

ChangeQueue::Change ChangeQueue::TakeNext() {
  auto next = waiting_.upper_bound(last_);
  if (next == waiting_.end()) next = waiting_.begin();
  last_ = next->first;
  Change change = std::move(next->second.front());
  next->second.pop_front();
  if (next->second.empty()) waiting_.erase(next);
  --size_;
  return change;
}

void ChangeQueue::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stops_ || size_ > 0; });
    if (size_ == 0) return;
    const Change change = TakeNext();
    const bool runs = !stops_;
    lock.unlock();
    change(runs);
    lock.lock();
  }
}

}  // namespace mccs
