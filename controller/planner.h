// Which policy decides for a communicator, and what a change of objects would make of strategies.
// Pure.
#ifndef MCCS_CONTROLLER_PLANNER_H_
#define MCCS_CONTROLLER_PLANNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"

namespace mccs {

// The strategy for communicator `id` of `view`, by the Policy that `objects` have for it, else by
// locality_ring as it is. A Policy that is not acted on counts as none. Errors as LocalityRing's.
absl::StatusOr<strategy::Strategy> ChooseStrategy(const ObjectSet& objects, const ClusterView& view,
                                                  CommId id);

// The Policy that ChooseStrategy goes by. Null: none.
const Object* PolicyInForce(const ObjectSet& objects, const CommunicatorView& communicator);

// A communicator that would get another strategy if it started after the change.
struct PlannedStrategy {
  CommId id;
  std::string tenant;
  std::string policy_before, policy_after;  // names; empty: none
  std::string change;                       // for people
};

struct PlannedStrategies {
  std::vector<PlannedStrategy> changed;
  size_t not_planned = 0;  // beyond kMaxPlanned
};

// Each strategy costs time in proportion to the communicators that there are.
inline constexpr size_t kMaxPlanned = 1000;

// Communicators whose Policy is another one `after`, or has other parameters, and whose strategy
// then is another one.
PlannedStrategies PlanStrategies(const ObjectSet& before, const ObjectSet& after,
                                 const ClusterView& view);

// Of this object: "yes", "in part", "not yet".
std::string InForce(const Object& object);
// What of it is kept and not acted on, in one sentence; empty: all is.
std::string NotActedOn(const Object& object);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PLANNER_H_
