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

// Communicators of an earlier controller.
using Remembered = std::map<CommId, CommunicatorView>;

struct StrategyChanges {
  std::vector<StoredStrategy> put;
  std::vector<CommId> erase;

  bool empty() const { return put.empty() && erase.empty(); }
};

class StrategyMemory {
 public:
  // What the store held. Records that cannot be read, or make no sense, are dropped, and erased
  // with the next changes.
  void Remember(const std::vector<StoredStrategy>& stored);
  // Of the remembered communicators only those that a daemon has announced since then stay, and no
  // host of them is waited for any longer. True: there were some, so With makes another view now.
  bool ForgetTheUnannounced();

  // `id` was announced, or another strategy is its newest.
  void Touch(CommId id);
  // `view` with the remembered communicators that no daemon has announced, and a mark on those that
  // are away (CommunicatorView::away).
  ClusterView With(ClusterView view) const;
  // Whether it was remembered and some host of it is not among these.
  bool IsAway(const CommunicatorView& communicator, const std::vector<HostView>& hosts) const;
  // Those that no daemon has announced.
  const Remembered& remembered() const { return remembered_; }
  // Another number whenever With puts others in.
  uint64_t revision() const { return revision_; }

  // What has changed since the last call.
  StrategyChanges TakeChanges(const Registry& registry);
  // The store did not take them.
  void GiveBack(const StrategyChanges& changes);

 private:
  Remembered remembered_;
  std::set<CommId> returning_;  // as they were remembered, announced or not
  uint64_t revision_ = 0;
  std::set<CommId> touched_;
  std::set<CommId> kept_;  // in the store, once all changes are
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STRATEGY_MEMORY_H_
