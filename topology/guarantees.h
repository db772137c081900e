// Checks whether all guarantees of flows can be held at once.
#ifndef MCCS_TOPOLOGY_GUARANTEES_H_
#define MCCS_TOPOLOGY_GUARANTEES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "topology/flow_demand.h"
#include "topology/topology.h"

namespace mccs {

// An arc with guarantees above its capacity.
struct BrokenGuarantee {
  ArcId arc;
  double guaranteed_bps = 0;  // sum of the guarantees of the flows over it
  double capacity_bps = 0;
  std::vector<size_t> flows;  // those with a guarantee, ascending
};

// All such arcs, ascending. Guarantees count in full, whatever the flows demand now. `capacity_bps`
// is by arc (Topology::ArcCapacities). An excess below kRateTolerance is ignored.
// REQUIRES: paths within the arcs; guarantees finite, not negative.
std::vector<BrokenGuarantee> FindBrokenGuarantees(std::span<const double> capacity_bps,
                                                  std::span<const FlowDemand> flows);

// Tolerance, relative to the capacity, for a sum of rates above it: rounding errors of fractions.
inline constexpr double kRateTolerance = 1e-9;

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_GUARANTEES_H_
