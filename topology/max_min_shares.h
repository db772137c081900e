// Who gets how much of the links: weighted max-min fair rates.
//
// A flow's level is its rate divided by its weight. Rates are max-min fair when no flow's level can
// be raised without lowering that of a flow whose level is no higher, each rate staying between the
// flow's guarantee and its demand or cap, whichever is lower. There is exactly one such solution.
// (A flow that is guaranteed more than its fair level gets its guarantee, and no more.)
//
// Found by progressive filling (source: Bertsekas and Gallager, Data Networks, 2nd edition 1992,
// section 6.5.2; weights and lower bounds as in Radunović and Le Boudec, "A unified framework for
// max-min and min-max fairness with applications", 2007): one level rises from zero, every flow's
// rate with it from its guarantee on, until the flow has what it demands or an arc on its path is
// full. It does not rise in steps but from event to event, so that the work is in proportion to
// the arcs that all flows take together, times the logarithm of the number of arcs.
#ifndef MCCS_TOPOLOGY_MAX_MIN_SHARES_H_
#define MCCS_TOPOLOGY_MAX_MIN_SHARES_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/flow_demand.h"

namespace mccs {

// Why a flow gets no more.
enum class ShareLimit {
  kDemand,  // it has what it wants
  kCap,     // it may not have more
  kLink,    // an arc on its path is full
};

struct Share {
  double rate_bps = 0;
  ShareLimit limit = ShareLimit::kDemand;
  ArcId full_arc;  // with kLink
};

// The share of each flow. `capacity_bps` is by arc (Topology::ArcCapacities), zero for one that
// carries nothing. The rates on an arc exceed its capacity by no more than kRateTolerance of it
// (topology/guarantees.h).
// kInvalidArgument: a flow whose figures are out of range (topology/flow_demand.h), whose path has an
// unknown arc, or that has neither path nor demand nor cap; kFailedPrecondition: guarantees that
// do not fit (FindBrokenGuarantees tells them all). The text names flows and arcs by number.
absl::StatusOr<std::vector<Share>> MaxMinShares(std::span<const double> capacity_bps,
                                                std::span<const FlowDemand> flows);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_MAX_MIN_SHARES_H_
