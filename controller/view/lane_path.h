// Which path a lane takes, from what its two ends report and the Topologies. All operators' views
// use this. Pure.
#ifndef MCCS_CONTROLLER_VIEW_LANE_PATH_H_
#define MCCS_CONTROLLER_VIEW_LANE_PATH_H_

#include <optional>
#include <string>
#include <vector>

#include "controller/view/fabric.h"

namespace mccs {

// One lane, as reported by its two ends.
struct LaneEnds {
  std::string from, to;       // names of hosts
  std::string local, remote;  // "address:port"
};

// Names of the links on the lane's path. Nothing: no Topology describes both hosts correctly, or
// the path is not known: the lane is not connected, its addresses are not in the Topology, or its
// source port has no mapping and no probe result.
std::optional<std::vector<std::string>> LinksOfLane(const Fabrics& fabrics, const LaneEnds& lane);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_VIEW_LANE_PATH_H_
