// Which path a lane takes, by what its two ends say of it and the operator's Topologies: the one
// place for all that operators are shown of it. Pure.
#ifndef MCCS_CONTROLLER_LANE_PATH_H_
#define MCCS_CONTROLLER_LANE_PATH_H_

#include <optional>
#include <string>
#include <vector>

#include "controller/policy/fabric.h"

namespace mccs {

// One lane, as its two ends see it.
struct LaneEnds {
  std::string from, to;       // names of hosts
  std::string local, remote;  // "address:port"
};

// The names of the links from the one host to the other. Nothing: no Topology has both hosts and is
// right about them, or the lane's path cannot be told (it is not connected, has addresses that the
// Topology does not, or a source port whose path it does not say and nobody has probed).
std::optional<std::vector<std::string>> LinksOfLane(const Fabrics& fabrics, const LaneEnds& lane);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_LANE_PATH_H_
