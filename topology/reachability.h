// What links join, and which hosts cannot reach each other, whatever NICs they use.
#ifndef MCCS_TOPOLOGY_REACHABILITY_H_
#define MCCS_TOPOLOGY_REACHABILITY_H_

#include <cstdint>
#include <vector>

#include "topology/topology.h"

namespace mccs {

// By switch: the number of its connected component, from 0. Links lead from one switch to another
// where these have the same, and nowhere else; those that are `down` (by link; empty: none is) do
// not count.
std::vector<int32_t> ComponentsOfSwitches(const Topology& topology,
                                          const std::vector<bool>& down = {});

struct Unreachable {
  HostId host;
  HostId from;  // the first host that does not reach it
};

// For each host, in their order, that cannot be reached from one before it: itself and the first
// such one. NICs on fabrics apart (a fabric per rail) are no fault as long as each two hosts share
// one. REQUIRES: each host has a NIC.
std::vector<Unreachable> FindUnreachable(const Topology& topology);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_REACHABILITY_H_
