// Weighted max-min fair rates by their definition, with linear programs: slow, and independent of
// topology/max_min_shares.h.
#ifndef MCCS_TESTS_UNIT_TOPOLOGY_MAX_MIN_ORACLE_H_
#define MCCS_TESTS_UNIT_TOPOLOGY_MAX_MIN_ORACLE_H_

#include <span>
#include <vector>

#include "topology/flow_demand.h"

namespace mccs {

// Raises the lowest level of all flows as far as possible, fixes flows that cannot have more in any
// solution, and continues with the others (source: "max-min programming", Radunović and Le Boudec,
// 2007). REQUIRES: guarantees, up to the demands, fit.
std::vector<double> MaxMinByLinearPrograms(std::span<const double> capacity_bps,
                                           std::span<const FlowDemand> flows);

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TOPOLOGY_MAX_MIN_ORACLE_H_
