// Tracks which strategies to store, and those that an earlier controller stored: a communicator
// still has its source ports while its daemons reconnect.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_STATE_RECOVERED_STRATEGIES_H_
#define MCCS_CONTROLLER_STATE_RECOVERED_STRATEGIES_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "controller/state/registry.h"
#include "controller/store/store.h"
#include "controller/view/cluster_view.h"

namespace mccs {

// Communicators of an earlier controller.
using RecoveredCommunicators = std::map<CommId, CommunicatorView>;

struct StrategyChanges {
  std::vector<StoredStrategy> put;
  std::vector<CommId> erase;

  bool empty() const { return put.empty() && erase.empty(); }
};

class RecoveredStrategies {
 public:
  // Loads stored records. Invalid ones are dropped, and erased by the next changes.
  void Load(const std::vector<StoredStrategy>& stored);
  // Drops recovered communicators that no daemon has announced. The others no longer count as
  // reconnecting. Returns true if the result of AddRecovered changes.
  bool DropUnannounced();

  // `id` was announced, or has a new newest strategy.
  void MarkChanged(CommId id);
  // Adds recovered communicators that no daemon has announced to `view`, and sets
  // CommunicatorView::reconnecting.
  ClusterView AddRecovered(ClusterView view) const;
  // Whether it was recovered and some host of it is not among `hosts`.
  bool IsReconnecting(const CommunicatorView& communicator,
                      const std::vector<HostView>& hosts) const;
  // Recovered communicators that no daemon has announced.
  const RecoveredCommunicators& recovered() const { return recovered_; }
  // Changes whenever the result of AddRecovered changes.
  uint64_t revision() const { return revision_; }

  // The changes since the last call.
  StrategyChanges TakeChanges(const Registry& registry);
  // The store rejected them: TakeChanges returns them again.
  void RestoreChanges(const StrategyChanges& changes);

 private:
  RecoveredCommunicators recovered_;
  std::set<CommId> returning_;  // recovered, announced or not
  uint64_t revision_ = 0;
  std::set<CommId> changed_;
  std::set<CommId> stored_;  // in the store after all taken changes
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_RECOVERED_STRATEGIES_H_
