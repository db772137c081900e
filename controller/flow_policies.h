// How the Policies that place flows have them placed: what the planner is told of a communicator,
// and what becomes of its answer. Pure.
#ifndef MCCS_CONTROLLER_FLOW_POLICIES_H_
#define MCCS_CONTROLLER_FLOW_POLICIES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"
#include "controller/policy/fabric.h"
#include "controller/policy/flow_planner.h"
#include "controller/policy/priority_flow.h"

namespace mccs {

// Whether a policy of this name places flows on paths.
bool PlacesFlows(std::string_view policy);

// "fair_flow by NAME".
std::string OriginOf(const Object& policy);

// Rings have so many channels for each NIC.
int ChannelsPerNic(const PolicyParameters& parameters);

// Of all Policies in force.
std::vector<Reservation> ReservationsOf(const ObjectSet& objects);

// What flows are placed over.
struct PlacingGround {
  const ObjectSet& objects;
  const ClusterView& view;  // complete
  const Fabrics& fabrics;   // of that view
  std::span<const Reservation> reservations;
};

// Has `planner` place the flows of a communicator by `policy`, which places flows. Its strategy has
// what other Policies say besides (PutAlgorithms). Errors as FlowPlanner::Add.
absl::Status PlaceBy(const Object& policy, const PlacingGround& ground,
                     const CommunicatorView& communicator, FlowPlanner* planner);

// Its origin says what could not be had.
strategy::Strategy StrategyOf(FlowPlanner::Planned planned);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_FLOW_POLICIES_H_
