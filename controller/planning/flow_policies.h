// Applies the Policies that place flows: passes communicators to the planner and converts its
// results to strategies. Pure.
#ifndef MCCS_CONTROLLER_PLANNING_FLOW_POLICIES_H_
#define MCCS_CONTROLLER_PLANNING_FLOW_POLICIES_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/objects/object_set.h"
#include "controller/policy/flow_planner.h"
#include "controller/policy/priority_flow.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"

namespace mccs {

// "fair_flow by NAME".
std::string OriginOf(const Object& policy);

// Number of channels for each NIC.
int ChannelsPerNic(const PolicyParameters& parameters);

// Of all Policies.
std::vector<Reservation> ReservationsOf(const ObjectSet& objects);

// Input of flow placement.
struct PlacementInput {
  const ObjectSet& objects;
  const ClusterView& view;  // resolved
  const Fabrics& fabrics;   // of that view
  std::span<const Reservation> reservations;
};

// Makes `planner` place the communicator's flows by `policy`. REQUIRES: it decides flows. The
// strategy also includes other Policies (PutAlgorithms). Errors as in FlowPlanner::Add.
absl::Status PlaceBy(const Object& policy, const PlacementInput& input,
                     const CommunicatorView& communicator, FlowPlanner* planner);

// Its origin names what the planner could not satisfy.
strategy::Strategy StrategyOf(FlowPlanner::Planned planned);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PLANNING_FLOW_POLICIES_H_
