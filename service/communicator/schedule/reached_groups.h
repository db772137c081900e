// Finds the captured groups that the streams of the local ranks have reached, and prepares them to
// run: a limited amount per turn, over all ranks. The next turn goes on with the next rank.
//
// OWNER: the ActiveWork. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_REACHED_GROUPS_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_REACHED_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "service/communicator/links/rank_port.h"

namespace mccs {

class ReachedGroups {
 public:
  // In units of the CapturedBudget: 256 calls, or all slots of four ranks. Some 40 µs.
  static constexpr size_t kPerTurn = 4096;

  // LIFETIME: the ranks outlive this.
  explicit ReachedGroups(std::span<const LocalRank> ranks) : ranks_(ranks) {}

  // Returns true if more can be prepared at once. An error ends the communicator: the tenant's.
  absl::StatusOr<bool> Poll();
  // The cost (turn_cost.h) of all calls of Poll.
  int64_t cost() const { return cost_; }

 private:
  // About 10 ns.
  static constexpr int64_t kCostPerLook = 100;

  const std::span<const LocalRank> ranks_;
  size_t next_rank_ = 0;
  int64_t cost_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_REACHED_GROUPS_H_
