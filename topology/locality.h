// Locality order: the order of hosts around a ring that crosses between racks as seldom as can be
// (source: "MCCS: managed collective communication as a service", SIGCOMM 2024, policy 1).
#ifndef MCCS_TOPOLOGY_LOCALITY_H_
#define MCCS_TOPOLOGY_LOCALITY_H_

#include <span>
#include <vector>

#include "base/ids.h"
#include "topology/position.h"

namespace mccs {

// The indices of `hosts`, ordered by (pod, rack, host); equal positions keep the order of `hosts`.
// ENSURES: a permutation of 0 … hosts.size() − 1. Taken as a ring, each pod and each rack is one
// unbroken run: entered once and left once. Depends on the positions alone, up to ties: every host
// of a communicator that sorts the same list gets the same ring.
std::vector<HostIndex> LocalityOrder(std::span<const Position> hosts);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_LOCALITY_H_
