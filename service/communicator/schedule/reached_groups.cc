#include "service/communicator/schedule/reached_groups.h"

#include <utility>

#include "base/status_macros.h"

namespace mccs {

absl::StatusOr<bool> ReachedGroups::Poll() {
  CapturedBudget budget(kPerTurn);
  bool more = false;
  const size_t first = std::exchange(next_rank_, 0);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const size_t index = (first + i) % ranks_.size();
    if (budget.left() == 0) {
      next_rank_ = index;
      break;
    }
    if (ranks_[index].port == nullptr) continue;
    MCCS_ASSIGN_OR_RETURN(const bool more_of_rank, ranks_[index].port->PollCaptured(&budget));
    more |= more_of_rank;
  }
  cost_ += static_cast<int64_t>(kPerTurn - budget.left()) * kCostPerLook;
  return more;
}

}  // namespace mccs
