// The plans of one communicator under one strategy. A plan is built on first use and kept: there are few
// kinds of calls, and roots.
//
// OWNER: OperationLoop. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_PLAN_CACHE_H_
#define MCCS_SERVICE_COMMUNICATOR_PLAN_CACHE_H_

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "algorithms/plan.h"
#include "service/communicator/strategy.h"

namespace mccs {

class PlanCache {
 public:
  PlanCache(Layout layout, const Strategy& strategy, HostIndex self)
      : layout_(std::move(layout)), orders_(OrdersOf(strategy)), self_(self) {}

  // LIFETIME: the plan lives as long as the cache.
  absl::StatusOr<const Plan*> GetOrBuild(const PlanKey& key);

  const Layout& layout() const { return layout_; }

 private:
  const Layout layout_;
  const ChannelOrders orders_;
  const HostIndex self_;
  absl::flat_hash_map<PlanKey, std::unique_ptr<const Plan>> plans_;
  const Plan* last_ = nullptr;  // jobs repeat themselves
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_PLAN_CACHE_H_
