// Connected components of a topology, and hosts that cannot reach each other.
#ifndef MCCS_TOPOLOGY_REACHABILITY_H_
#define MCCS_TOPOLOGY_REACHABILITY_H_

#include <cstdint>
#include <vector>

#include "topology/topology.h"

namespace mccs {

// By switch: the number of its connected component, from 0. Ignores links that are `down` (by link;
// empty: none is).
std::vector<int32_t> ComponentsOfSwitches(const Topology& topology,
                                          const std::vector<bool>& down = {});

struct Unreachable {
  HostId host;
  HostId from;  // the first host that cannot reach it
};

// All hosts that some earlier host cannot reach, in order, each with the first such host. Hosts
// reach each other if they share one fabric; separate fabrics (one per rail) are allowed.
// REQUIRES: each host has a NIC.
std::vector<Unreachable> FindUnreachable(const Topology& topology);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_REACHABILITY_H_
