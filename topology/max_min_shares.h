// Weighted max-min fair rates of flows on links.
//
// A flow's level is its rate divided by its weight. Rates are max-min fair if no flow's level can
// rise without lowering the level of a flow whose level is not higher. Each rate stays between the
// flow's guarantee and the lower one of its demand and cap. There is exactly one solution. (A flow
// with a guarantee above its fair level gets exactly its guarantee.)
//
// Computed by progressive filling (source: Bertsekas and Gallager, Data Networks, 2nd edition 1992,
// section 6.5.2; weights and lower bounds as in Radunović and Le Boudec, "A unified framework for
// max-min and min-max fairness with applications", 2007). One level rises from zero. Every flow's
// rate rises with it, from its guarantee, until the flow has its demand or an arc on its path is
// full. The level jumps from event to event. The work is proportional to the arcs of all flows
// together, times the logarithm of the number of arcs.
#ifndef MCCS_TOPOLOGY_MAX_MIN_SHARES_H_
#define MCCS_TOPOLOGY_MAX_MIN_SHARES_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/flow_demand.h"

namespace mccs {

// Why a flow gets no higher rate.
enum class ShareLimit {
  kDemand,  // it has its demand
  kCap,     // it has its cap
  kLink,    // an arc on its path is full
};

struct Share {
  double rate_bps = 0;
  ShareLimit limit = ShareLimit::kDemand;
  ArcId full_arc;  // if limit is kLink
};

// The share of each flow. `capacity_bps` is by arc (Topology::ArcCapacities), zero for an unusable
// one. The rates on an arc exceed its capacity by at most kRateTolerance (topology/guarantees.h).
// kInvalidArgument: a flow with values out of range (topology/flow_demand.h), with an unknown arc
// in its path, or without path, demand and cap. kFailedPrecondition: guarantees above a capacity
// (FindBrokenGuarantees lists all). Messages name flows and arcs by number.
absl::StatusOr<std::vector<Share>> MaxMinShares(std::span<const double> capacity_bps,
                                                std::span<const FlowDemand> flows);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_MAX_MIN_SHARES_H_
