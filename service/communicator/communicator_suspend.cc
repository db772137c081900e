// The part of a Communicator that releases the memory of its lanes while it is suspended.
#include <algorithm>

#include "service/communicator/communicator.h"

namespace mccs {

void Communicator::Suspend(RankPort* port, bool suspended) {
  Wake();
  std::erase(suspended_, port);
  if (suspended) suspended_.push_back(port);
  give_back_next_ = {};
  // Computed each time: a rank that left, and is no longer counted, may have been the last one.
  gives_back_ =
      !suspended_.empty() && std::all_of(locals_.begin(), locals_.end(), [&](const LocalRank& l) {
        return l.port == nullptr ||
               std::find(suspended_.begin(), suspended_.end(), l.port) != suspended_.end();
      });
  if (gives_back_ && state_ == State::kActive) GiveBackMemory();
}

void Communicator::GiveBackMemory() {
  if (loop_->wants_more() || messages_->wants_more() || !quiescent()) return;
  // Also check for work that was posted just now and that the loops have not seen.
  for (const LocalRank& local : locals_) {
    if (local.port == nullptr) continue;
    const auto front = local.port->Front();
    if (!front.ok() || *front != nullptr || local.port->HasMessages()) return;
  }
  const LaneSet::GivenBack given = formation_.lanes->GiveBackMemory(&give_back_next_);
  gives_back_ = given != LaneSet::GivenBack::kAll;
  if (given == LaneSet::GivenBack::kSome) Wake();
}

}  // namespace mccs
