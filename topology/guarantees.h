// Whether the guarantees of flows can be kept all at once.
#ifndef MCCS_TOPOLOGY_GUARANTEES_H_
#define MCCS_TOPOLOGY_GUARANTEES_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "topology/flow_demand.h"
#include "topology/topology.h"

namespace mccs {

// An arc whose flows were promised more than it carries.
struct BrokenGuarantee {
  ArcId arc;
  double guaranteed_bps = 0;  // sum of the guarantees of the flows over it
  double capacity_bps = 0;
  std::vector<size_t> flows;  // those with a guarantee, ascending
};

// All such arcs, ascending. Guarantees count in full, whether or not a flow demands so much now: a
// promise is checked when it is made. `capacity_bps` is by arc (Topology::ArcCapacities).
// Guarantees that exceed an arc by less than a billionth of it fit: they are sums of fractions.
// REQUIRES: paths within the arcs; guarantees finite, not negative.
std::vector<BrokenGuarantee> FindBrokenGuarantees(std::span<const double> capacity_bps,
                                                  std::span<const FlowDemand> flows);

// "leaf0 → spine1 carries 50 Gbps, but 62.5 Gbps of it are guaranteed to 3 flows".
std::string Describe(const BrokenGuarantee& broken, const Topology& topology);

// How far a sum of rates may stand above a capacity and count as fitting: fractions do not add up
// exactly.
inline constexpr double kRateTolerance = 1e-9;

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_GUARANTEES_H_
