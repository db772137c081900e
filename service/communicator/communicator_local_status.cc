// The part of a Communicator that reports the state of its local ranks.
#include <algorithm>

#include "service/communicator/communicator.h"

namespace mccs {

peer::Entered Communicator::LocalEntered() const {
  const OperationLoop::LocalRankStatus local_status = loop_->LocalStatus();
  peer::Entered entered;
  entered.set_operation(loop_->completed() + 1);
  entered.set_call(local_status.call);
  for (const Rank rank : local_status.absent) entered.add_not_entered(rank.value());
  for (const Rank rank : local_status.late) entered.add_not_reached(rank.value());
  return entered;
}

size_t Communicator::ReplayableGroups() const {
  size_t most = 0;
  for (const LocalRank& local : locals_) {
    if (local.port != nullptr) most = std::max(most, local.port->ReplayableGroups());
  }
  return most;
}

}  // namespace mccs
