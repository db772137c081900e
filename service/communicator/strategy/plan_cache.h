// The plans of one communicator under one strategy. A plan is built on first use and cached. The
// number of cached plans and their memory are limited: a program may use any root, and a tenant's
// hosts may have any number of ranks. The plans that were used least recently leave first. Also
// chooses the algorithm of a call and estimates its duration.
//
// A plan over 1,000 hosts takes tens of milliseconds to build, and the first call of a kind needs
// several. So the cache builds and weighs in parts of about 0.1 ms, in the turns of the
// communicator, whose tenant pays for them:
//
//   KeyFor, Find, EstimateUs ──nothing yet──► Work, Work, … ──► the same call again
//
// OWNER: OperationLoop. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_STRATEGY_PLAN_CACHE_H_
#define MCCS_SERVICE_COMMUNICATOR_STRATEGY_PLAN_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "algorithms/algorithm_choice.h"
#include "algorithms/build_plan.h"
#include "algorithms/cost.h"
#include "algorithms/plan.h"
#include "proto/operation.h"
#include "service/communicator/strategy/strategy.h"
#include "service/host_budget.h"

namespace mccs {

// Enough for the calls of known jobs, with a root per rank of one or two hosts.
inline constexpr size_t kMaxCachedPlans = 64;
// MemoryBytes of all together. A plan takes a few KiB per host of the ring, about 5 MiB for an
// all-to-all of 8,192 ranks. The newest one stays, so that its caller can take it: then the limit
// is that of its size (kMaxPlanParts).
inline constexpr uint64_t kMaxCachedPlanBytes = 256 << 20;

// As the tenant passes it: fields are unchecked.
struct EstimatedCall {
  OpKind kind = OpKind::kNone;
  DataType type = DataType::kInt8;
  int32_t root_or_peer = 0;
  uint64_t count = 0;
};

// The orders from which `self` builds its plans if kernels run them: home ranks are replaced by the
// ranks that run the programs of their GPUs. A host alone has a channel for each such rank, so that
// each GPU does its share. `runners`: of KernelRanks; empty: the orders themselves.
ChannelOrders OwnOrders(ChannelOrders orders, const Layout& layout, HostIndex self,
                        std::span<const LocalIndex> runners);

class PlanCache {
 public:
  // `runners`: of KernelRanks. `memory`: of kPlanMemory. `max_bytes`: less in tests.
  PlanCache(Layout layout, const Strategy& strategy, HostIndex self,
            std::span<const LocalIndex> runners = {},
            BudgetShare memory = BudgetShare(nullptr, Resource::kPlanMemory),
            uint64_t max_bytes = kMaxCachedPlanBytes)
      : max_bytes_(max_bytes),
        memory_(std::move(memory)),
        layout_(std::move(layout)),
        orders_(OrdersOf(strategy)),
        own_orders_(OwnOrders(orders_, layout_, self, runners)),
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

  // The algorithm of a call with `bytes` bytes of count; the same on all hosts. Nothing: Work has
  // to prepare the choice. REQUIRES: `kind` has plans.
  std::optional<Algorithm> AlgorithmFor(OpKind kind, uint64_t bytes);
  // The key of its plan, without root and scale; nothing as above.
  std::optional<PlanKey> KeyFor(OpKind kind, uint64_t bytes);
  // The plan for `key`; null: Work has to build it. A plan outlives its place in the cache, and the
  // cache, while its user holds it. kInvalidArgument, kResourceExhausted: as BuildPlan.
  // kResourceExhausted: also if the tenant has no memory for it, without other plans of this cache.
  absl::StatusOr<std::shared_ptr<const Plan>> Find(const PlanKey& key);
  // Duration of a call in microseconds, by the cost model. Nothing: Work has to build its plan, as
  // for the call itself. kInvalidArgument: not a valid call.
  absl::StatusOr<std::optional<double>> EstimateUs(const EstimatedCall& call);

  // Something was asked for that is not built.
  bool has_work() const {
    return build_.has_value() || weighing_.has_value() || wanted_.has_value();
  }
  // Builds parts of what was asked for last, until they cost `most`, or more by one part.
  void Work(int64_t most);
  // The cost of all parts so far, in the unit of turn_cost.h.
  int64_t cost() const { return cost_; }

  size_t size() const { return by_use_.size(); }
  // MemoryBytes of all cached plans.
  uint64_t bytes() const { return memory_.held(); }
  const Layout& layout() const { return layout_; }
  // Of all plans.
  int channels() const { return static_cast<int>(own_orders_.rings.size()); }

 private:
  struct Cached {
    std::shared_ptr<const Plan> plan;
    std::optional<PlanWeight> weight;  // once it has been estimated
  };
  using ByUse = std::list<Cached>;  // most recently used first
  // The last request.
  struct Wanted {
    OpKind kind = OpKind::kNone;
    uint64_t bytes = 0;
    std::optional<PlanKey> plan = {};  // nothing: the choice of the algorithm
    bool weighs = false;               // the plan's weight, too
  };
  struct Failure {
    PlanKey key;
    absl::Status why;
  };

  // As Find, with the plan's place; null: it is not built yet.
  absl::StatusOr<Cached*> FindCached(const PlanKey& key);
  // Returns the cost of the part.
  int64_t BuildPart();
  void Fail(const PlanKey& key, const absl::Status& why);
  int64_t WeighPart();
  absl::Status Insert(Plan plan);
  void EvictOldest();

  const uint64_t max_bytes_;
  BudgetShare memory_;
  const Layout layout_;
  const ChannelOrders orders_;      // of the strategy: for the choice, which all hosts make alike
  const ChannelOrders own_orders_;  // of this host's plans
  const HostIndex self_;
  const uint32_t slot_bytes_;
  const CostParameters costs_;
  AlgorithmChooser chooser_;
  ByUse by_use_;
  absl::flat_hash_map<PlanKey, ByUse::iterator> plans_;
  std::optional<Wanted> wanted_;
  std::optional<PlanBuild> build_;        // in progress; it is completed whatever is wanted later
  std::optional<PlanWeighing> weighing_;  // likewise
  std::optional<Failure> failure_;        // the last one
  int64_t cost_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_STRATEGY_PLAN_CACHE_H_
