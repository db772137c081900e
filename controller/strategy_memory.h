// Which strategies the store should hold, and those that it held when this controller started: a
// communicator whose daemons have not come back yet still has its source ports.
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

struct StrategyChanges {
  std::vector<StoredStrategy> put;
  std::vector<CommId> erase;

  bool empty() const { return put.empty() && erase.empty(); }
};

class StrategyMemory {
 public:
  // What the store held. Records that cannot be read are dropped, and erased with the next changes.
  void Remember(const std::vector<StoredStrategy>& stored);
  // Of the remembered communicators only those that a daemon has announced since then stay.
  void ForgetTheUnannounced();

  // `id` was announced, or another strategy is its newest.
  void Touch(CommId id);
  // `view` with the remembered communicators that no daemon has announced.
  ClusterView With(ClusterView view) const;
  // Another number whenever With puts others in.
  uint64_t revision() const { return revision_; }

  // What has changed since the last call.
  StrategyChanges TakeChanges(const Registry& registry);
  // The store did not take them.
  void GiveBack(const StrategyChanges& changes);

 private:
  std::map<CommId, CommunicatorView> remembered_;
  uint64_t revision_ = 0;
  std::set<CommId> touched_;
  std::set<CommId> kept_;  // in the store, once all changes are
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STRATEGY_MEMORY_H_
