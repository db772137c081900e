// The part of a Communicator that releases the memory of its lanes while it is suspended.
#include <algorithm>

#include "service/communicator/communicator.h"

namespace mccs {

void Communicator::Suspend(RankPort* port, bool suspended) {
  Wake();
  std::erase(suspended_, port);
  if (suspended) suspended_.push_back(port);
  memory_release_cursor_ = {};
  // Computed each time: a rank that left, and is no longer counted, may have been the last one.
  release_memory_ =
      !suspended_.empty() && std::all_of(locals_.begin(), locals_.end(), [&](const LocalRank& l) {
        return l.port == nullptr ||
               std::find(suspended_.begin(), suspended_.end(), l.port) != suspended_.end();
      });
  if (release_memory_ && state_ == State::kActive) ReleaseLaneMemory();
}

void Communicator::ReleaseLaneMemory() {
  if (loop_->has_pending_calls() || messages_->has_pending_calls() || !quiescent()) return;
  // Also check for work that was posted just now and that the loops have not seen.
  for (const LocalRank& local : locals_) {
    if (local.port == nullptr) continue;
    const auto front = local.port->Front();
    if (!front.ok() || *front != nullptr || local.port->HasMessages()) return;
  }
  const LaneSet::MemoryRelease given = formation_.lanes->ReleaseLaneMemory(&memory_release_cursor_);
  release_memory_ = given != LaneSet::MemoryRelease::kAll;
  if (given == LaneSet::MemoryRelease::kSome) Wake();
}

}  // namespace mccs
