// Incremental planner: same results as planner.h, but caches fabrics with their paths and each
// communicator's flows with paths and ports (controller/policy/flow_planner.h) until their inputs
// change.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_PLANNING_INCREMENTAL_PLANNER_H_
#define MCCS_CONTROLLER_PLANNING_INCREMENTAL_PLANNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/objects/object_set.h"
#include "controller/planning/planner.h"
#include "controller/policy/flow_planner.h"
#include "controller/policy/priority_flow.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"
#include "controller/view/source_ports.h"

namespace mccs {

class IncrementalPlanner {
 public:
  // REQUIRES of all: `view` is ViewCache's, for `objects`.

  // As DecideForResolvedView. Plans from scratch if some communicator's flows are not placed: its
  // policy does not place flows, or no Topology has its hosts.
  Decisions Decide(const ObjectSet& objects, const ClusterView& view);
  // As RunPolicyFor, with the same errors.
  absl::StatusOr<strategy::Strategy> Choose(const ObjectSet& objects, const ClusterView& view,
                                            CommId id);
  // Updates the cache in advance, so that the next call has less work.
  void Update(const ObjectSet& objects, const ClusterView& view);

  // Of the last view. REQUIRES: Decide, Choose or Update was called.
  const Fabrics& fabrics() const { return state_->fabrics; }

 private:
  // Cache entry of one communicator.
  struct CacheEntry {
    uint64_t revision = 0;
    bool placed = false;
    std::vector<SourcePorts::Port> ports = {};
  };
  // Everything derived from Topologies, hosts and objects.
  struct PlanState {
    PlanState(const ObjectSet& objects, const ClusterView& view);

    const uint64_t number;
    const std::vector<Reservation> reservations;
    const Fabrics fabrics;
    SourcePorts taken;
    FlowPlanner planner{&fabrics, &taken};
    std::map<CommId, CacheEntry> known = {};
    size_t not_placed = 0;
  };

  void AddEntry(const ObjectSet& objects, const ClusterView& view,
                const CommunicatorView& communicator);
  void Remove(std::map<CommId, CacheEntry>::iterator known);

  std::unique_ptr<PlanState> state_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PLANNING_INCREMENTAL_PLANNER_H_
