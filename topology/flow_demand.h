// The demand, weight and limits of one flow.
#ifndef MCCS_TOPOLOGY_FLOW_DEMAND_H_
#define MCCS_TOPOLOGY_FLOW_DEMAND_H_

#include <limits>

#include "topology/ecmp_paths.h"

namespace mccs {

inline constexpr double kUnlimitedBps = std::numeric_limits<double>::infinity();

// Rates in bits per second.
struct FlowDemand {
  Path path;
  double weight = 1;  // above zero, finite
  double demand_bps = kUnlimitedBps;
  double guarantee_bps = 0;        // finite; the flow gets at least min(demand, guarantee)
  double cap_bps = kUnlimitedBps;  // upper limit, not below the guarantee
};

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_FLOW_DEMAND_H_
