// The planner's decisions, and their descriptions for operators. Pure.
#ifndef MCCS_CONTROLLER_PLANNING_DECISIONS_H_
#define MCCS_CONTROLLER_PLANNING_DECISIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
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

// Adds the decision that `communicator` should run `strategy`, which the Policy of this name
// chose. Nothing is added if they differ only in epoch and origin.
void AddDecision(const CommunicatorView& communicator, const std::string& policy,
                 absl::StatusOr<strategy::Strategy> strategy, Decisions* decisions);

// Sets the decided strategies in `view`, for which they were decided.
void PutStrategies(const Decisions& decisions, ClusterView* view);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PLANNING_DECISIONS_H_
