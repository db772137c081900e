#include "shim/submit/child_joins.h"

#include <utility>

#include "shim/submit/communicator.h"

namespace mccs::shim {

void ChildLink::Clear() {
  std::lock_guard lock(mutex_);
  child_ = nullptr;
}

bool ChildLink::StillJoins() {
  std::lock_guard lock(mutex_);
  return child_ != nullptr && child_->StillJoins();
}

void ChildJoins::Begin(Communicator* child) {
  std::lock_guard lock(mutex_);
  children_.push_back(child);
  if (aborted_) child->Abort();
}

void ChildJoins::End(Communicator* child) {
  std::lock_guard lock(mutex_);
  std::erase(children_, child);
}

void ChildJoins::Track(std::shared_ptr<ChildLink> link) {
  std::lock_guard lock(mutex_);
  tracked_.push_back(std::move(link));
  has_tracked_.store(true, std::memory_order_relaxed);
}

bool ChildJoins::AnyTrackedJoins() {
  if (!has_tracked_.load(std::memory_order_relaxed)) [[likely]]
    return false;
  std::lock_guard lock(mutex_);
  std::erase_if(tracked_,
                [](const std::shared_ptr<ChildLink>& link) { return !link->StillJoins(); });
  has_tracked_.store(!tracked_.empty(), std::memory_order_relaxed);
  return !tracked_.empty();
}

void ChildJoins::Abort() {
  std::lock_guard lock(mutex_);
  aborted_ = true;
  for (Communicator* child : children_) child->Abort();
}

}  // namespace mccs::shim
