// Tracks which strategies to store, and those that an earlier controller stored: a communicator
// still has its source ports while its daemons reconnect.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_STRATEGY_MEMORY_H_
#define MCCS_CONTROLLER_STRATEGY_MEMORY_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "controller/cluster_view.h"
#include "controller/registry.h"
#include "controller/store/store.h"

namespace mccs {

// Communicators of an earlier controller.
using Remembered = std::map<CommId, CommunicatorView>;

struct StrategyChanges {
  std::vector<StoredStrategy> put;
  std::vector<CommId> erase;

  bool empty() const { return put.empty() && erase.empty(); }
};

class StrategyMemory {
 public:
  // Loads stored records. Invalid ones are dropped, and erased by the next changes.
  void Remember(const std::vector<StoredStrategy>& stored);
  // Drops recovered communicators that no daemon has announced, and stops waiting for hosts of the
  // others. True: there were some, so With returns another view now.
  bool ForgetTheUnannounced();

  // `id` was announced, or has a new newest strategy.
  void Touch(CommId id);
  // Adds recovered communicators that no daemon has announced to `view`, and sets
  // CommunicatorView::away.
  ClusterView With(ClusterView view) const;
  // Whether it was recovered and some host of it is not among `hosts`.
  bool IsAway(const CommunicatorView& communicator, const std::vector<HostView>& hosts) const;
  // Recovered communicators that no daemon has announced.
  const Remembered& remembered() const { return remembered_; }
  // Changes whenever the result of With changes.
  uint64_t revision() const { return revision_; }

  // What has changed since the last call.
  StrategyChanges TakeChanges(const Registry& registry);
  // The store rejected them: TakeChanges returns them again.
  void GiveBack(const StrategyChanges& changes);

 private:
  Remembered remembered_;
  std::set<CommId> returning_;  // recovered, announced or not
  uint64_t revision_ = 0;
  std::set<CommId> touched_;
  std::set<CommId> kept_;  // in the store after all taken changes
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STRATEGY_MEMORY_H_
