// Chooses the policy of each communicator, and computes which strategies a change of objects
// changes. Pure.
#ifndef MCCS_CONTROLLER_PLANNING_PLANNER_H_
#define MCCS_CONTROLLER_PLANNING_PLANNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/objects/object_set.h"
#include "controller/planning/run_policies.h"
#include "controller/view/cluster_view.h"

namespace mccs {

// A communicator that should get a strategy other than its newest one.
struct Decision {
  CommId id;
  std::string tenant;
  std::string policy;  // name; empty: none
  strategy::Strategy strategy;
  std::string change;  // description for operators
};

struct Decisions {
  std::vector<Decision> changed;  // by id
  std::vector<absl::Status>
      trouble;  // communicators without a strategy; they keep their current one
};

// For all communicators of the view. Strategies that differ only in epoch and origin are equal.
Decisions Decide(const ObjectSet& objects, const ClusterView& view);
// Likewise. REQUIRES: `resolved` is a resolved view (controller/state/resolved_view.h).
Decisions DecideForResolvedView(const ObjectSet& objects, const ClusterView& resolved);
// Sets the decided strategies in `view`, for which they were decided.
void PutStrategies(const Decisions& decisions, ClusterView* view);
// Adds the decision that `communicator`, of a resolved view, should run `strategy`.
void AddDecision(const ObjectSet& objects, const CommunicatorView& communicator,
                 absl::StatusOr<strategy::Strategy> strategy, Decisions* decisions);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PLANNING_PLANNER_H_
