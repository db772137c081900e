// The plans of one communicator under one strategy. A plan is built on first use and kept, as jobs
// repeat themselves; of a program that changes its roots all the time, the kMaxCachedPlans used
// last. Also says by which algorithm a call runs.
//
// OWNER: OperationLoop. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_PLAN_CACHE_H_
#define MCCS_SERVICE_COMMUNICATOR_PLAN_CACHE_H_

#include <cstddef>
#include <list>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "algorithms/algorithm_choice.h"
#include "algorithms/plan.h"
#include "service/communicator/strategy.h"

namespace mccs {

// More than the kinds of calls of any job we know, with a root per rank of a host or two. A plan
// takes some kilobytes per host of the ring, a megabyte on a thousand hosts.
inline constexpr size_t kMaxCachedPlans = 64;

class PlanCache {
 public:
  PlanCache(Layout layout, const Strategy& strategy, HostIndex self)
      : layout_(std::move(layout)),
        orders_(OrdersOf(strategy)),
        self_(self),
        chooser_({.layout = layout_,
                  .orders = orders_,
                  .slot_bytes = strategy.lanes.slot_bytes,
                  .max_peers = MaxPeers(strategy)},
                 strategy.algorithms) {}
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

  // The algorithm of a call whose count comes to so many bytes: the same on all hosts.
  // REQUIRES: a kind that has plans.
  Algorithm AlgorithmFor(OpKind kind, uint64_t bytes) { return chooser_.Choose(kind, bytes); }
  // The plan for `key`; the one used longest ago makes room for a new one. Who runs a plan holds
  // it: it then outlives its place in the cache, and the cache.
  absl::StatusOr<std::shared_ptr<const Plan>> GetOrBuild(const PlanKey& key);

  size_t size() const { return by_use_.size(); }
  const Layout& layout() const { return layout_; }

 private:
  using ByUse = std::list<std::shared_ptr<const Plan>>;  // the last used in front

  const Layout layout_;
  const ChannelOrders orders_;
  const HostIndex self_;
  AlgorithmChooser chooser_;
  ByUse by_use_;
  absl::flat_hash_map<PlanKey, ByUse::iterator> plans_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_PLAN_CACHE_H_
