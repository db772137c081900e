// Policy: fair_flow, with some links reserved for favoured tenants (source: priority flow
// assignment, PFA, in "MCCS", SIGCOMM 2024, policy 3).
//
// Flows of other tenants avoid reserved links while they have another path, under every policy that
// places flows. Favoured flows are placed after them: on reserved links while these have room, on
// others only if more is free there. The published policy restricts favoured flows to reserved
// paths.
#ifndef MCCS_CONTROLLER_POLICY_PRIORITY_FLOW_H_
#define MCCS_CONTROLLER_POLICY_PRIORITY_FLOW_H_

#include <span>
#include <string>
#include <vector>

#include "controller/policy/flow_planner.h"

namespace mccs {

// The reservation of one Policy.
struct Reservation {
  std::vector<std::string> favoured;  // names of tenants
  std::vector<std::string> links;
};

// `options` of a communicator of `tenant`, with all reservations applied.
FlowOptions ApplyReservations(FlowOptions options, const std::string& tenant,
                              std::span<const Reservation> reservations);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_PRIORITY_FLOW_H_
