// Which policy decides for a communicator, and what a change of objects would make of strategies.
// Pure.
#ifndef MCCS_CONTROLLER_PLANNER_H_
#define MCCS_CONTROLLER_PLANNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"
#include "controller/run_policies.h"

namespace mccs {

// The strategy for communicator `id` of `view`, by the Policy that `objects` have for it, else by
// locality_ring as it is. A Policy that is not acted on counts as none. Others run what they run.
// Errors as RunPolicyOf's (controller/run_policies.h).
absl::StatusOr<strategy::Strategy> ChooseStrategy(const ObjectSet& objects, const ClusterView& view,
                                                  CommId id);

// A communicator that is to get another strategy than its newest one in the view.
struct Decision {
  CommId id;
  std::string tenant;
  std::string policy;  // name; empty: none
  strategy::Strategy strategy;
  std::string change;  // for people
};

struct Decisions {
  std::vector<Decision> changed;      // by id
  std::vector<absl::Status> trouble;  // of those for which there is no strategy: they keep theirs
};

// For all communicators of the view. What its Policy would choose now and what it has are the same
// where they differ in epoch and origin alone.
Decisions Decide(const ObjectSet& objects, const ClusterView& view);
// Likewise, of a view that is complete (controller/complete_view.h).
Decisions DecideComplete(const ObjectSet& objects, const ClusterView& complete);
// Has the communicators of `view`, of which that was decided, run it.
void PutStrategies(const Decisions& decisions, ClusterView* view);
// Adds to them that `communicator`, of a complete view, should run `strategy`.
void AddDecision(const ObjectSet& objects, const CommunicatorView& communicator,
                 absl::StatusOr<strategy::Strategy> strategy, Decisions* decisions);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PLANNER_H_
