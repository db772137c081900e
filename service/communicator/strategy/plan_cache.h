// The plans of one communicator under one strategy. A plan is built on first use and cached. If a
// program keeps changing its roots, only the kMaxCachedPlans most recently used plans stay. Also
// chooses the algorithm of a call and estimates its duration.
//
// OWNER: OperationLoop. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_STRATEGY_PLAN_CACHE_H_
#define MCCS_SERVICE_COMMUNICATOR_STRATEGY_PLAN_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "algorithms/algorithm_choice.h"
#include "algorithms/cost.h"
#include "algorithms/plan.h"
#include "proto/operation.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {

// Enough for the calls of known jobs, with a root per rank of one or two hosts. A plan takes a few
// KiB per host of the ring: about 1 MiB for 1,000 hosts.
inline constexpr size_t kMaxCachedPlans = 64;

// As the tenant passes it: fields are unchecked.
struct EstimatedCall {
  OpKind kind = OpKind::kNone;
  DataType type = DataType::kInt8;
  int32_t root_or_peer = 0;
  uint64_t count = 0;
};

class PlanCache {
 public:
  PlanCache(Layout layout, const Strategy& strategy, HostIndex self)
      : layout_(std::move(layout)),
        orders_(OrdersOf(strategy)),
        self_(self),
        slot_bytes_(strategy.lanes.slot_bytes),
        costs_(strategy.algorithms.costs),
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
  // Duration of a call in microseconds, by the cost model. Builds its plan, as the call itself
  // would. kInvalidArgument: not a valid call.
  absl::StatusOr<double> EstimateUs(const EstimatedCall& call);

  size_t size() const { return by_use_.size(); }
  const Layout& layout() const { return layout_; }

 private:
  using ByUse = std::list<std::shared_ptr<const Plan>>;  // most recently used first

  const Layout layout_;
  const ChannelOrders orders_;
  const HostIndex self_;
  const uint32_t slot_bytes_;
  const CostParameters costs_;
  AlgorithmChooser chooser_;
  ByUse by_use_;
  absl::flat_hash_map<PlanKey, ByUse::iterator> plans_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_STRATEGY_PLAN_CACHE_H_
