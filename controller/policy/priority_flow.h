// Policy: links that are reserved for favoured tenants; on what is left, and for the favoured on
// all of it, fair_flow (source: priority flow assignment, PFA, in "MCCS", SIGCOMM 2024, policy 3).
//
// Flows of others keep off reserved links, under whichever policy that places flows, while they
// have another path. Favoured flows are placed after them, and so go round them: to reserved links
// as long as these have room, and elsewhere only where others leave more. The published policy
// keeps favoured flows on the reserved paths.
#ifndef MCCS_CONTROLLER_POLICY_PRIORITY_FLOW_H_
#define MCCS_CONTROLLER_POLICY_PRIORITY_FLOW_H_

#include <span>
#include <string>
#include <vector>

#include "controller/policy/flow_planner.h"

namespace mccs {

inline constexpr char kPriorityFlowName[] = "priority_flow";

// Of one Policy in force.
struct Reservation {
  std::vector<std::string> favoured;  // names of tenants
  std::vector<std::string> links;
};

// `options` for a communicator of `tenant` under all that is reserved.
FlowOptions UnderReservations(FlowOptions options, const std::string& tenant,
                              std::span<const Reservation> reservations);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_PRIORITY_FLOW_H_
