// The plans of one communicator under one strategy. A plan is built on first use and cached. If a
// program keeps changing its roots, only the kMaxCachedPlans most recently used plans stay. Also
// chooses the algorithm of a call.
//
// OWNER: OperationLoop. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_STRATEGY_PLAN_CACHE_H_
#define MCCS_SERVICE_COMMUNICATOR_STRATEGY_PLAN_CACHE_H_

#include <cstddef>
#include <list>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "algorithms/algorithm_choice.h"
#include "algorithms/plan.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {

// Enough for the calls of known jobs, with a root per rank of one or two hosts. A plan takes a few
// KiB per host of the ring: about 1 MiB for 1,000 hosts.
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

  // The algorithm of a call with `bytes` bytes of count; the same on all hosts.
  // REQUIRES: `kind` has plans.
  Algorithm AlgorithmFor(OpKind kind, uint64_t bytes) { return chooser_.Choose(kind, bytes); }
  // The plan for `key`; a new plan replaces the least recently used one. A plan outlives its place
  // in the cache, and the cache, while its user holds it.
  absl::StatusOr<std::shared_ptr<const Plan>> GetOrBuild(const PlanKey& key);

  size_t size() const { return by_use_.size(); }
  const Layout& layout() const { return layout_; }

 private:
  using ByUse = std::list<std::shared_ptr<const Plan>>;  // most recently used first

  const Layout layout_;
  const ChannelOrders orders_;
  const HostIndex self_;
  AlgorithmChooser chooser_;
  ByUse by_use_;
  absl::flat_hash_map<PlanKey, ByUse::iterator> plans_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_STRATEGY_PLAN_CACHE_H_
