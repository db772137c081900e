// The part of a Communicator that gives the memory of its lanes back while nobody uses it.
#include <algorithm>

#include "service/communicator/communicator.h"

namespace mccs {

void Communicator::Suspend(RankPort* port, bool suspended) {
  Wake();
  std::erase(suspended_, port);
  if (suspended) suspended_.push_back(port);
  give_back_next_ = {};
  // Each time anew: a rank that leaves (of which nothing is left here) may have been the last.
  gives_back_ =
      !suspended_.empty() && std::all_of(locals_.begin(), locals_.end(), [&](const LocalRank& l) {
        return l.port == nullptr ||
               std::find(suspended_.begin(), suspended_.end(), l.port) != suspended_.end();
      });
  if (gives_back_ && state_ == State::kActive) GiveBackMemory();
}

void Communicator::GiveBackMemory() {
  if (loop_->wants_more() || messages_->wants_more() || !quiescent()) return;
  // What was posted just before and the loops have not seen yet.
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
