// Locality order: an order of hosts around a ring that crosses between racks as rarely as possible
// (source: "MCCS: managed collective communication as a service", SIGCOMM 2024, policy 1).
#ifndef MCCS_TOPOLOGY_LOCALITY_H_
#define MCCS_TOPOLOGY_LOCALITY_H_

#include <span>
#include <vector>

#include "base/ids.h"
#include "topology/position.h"

namespace mccs {

// The indices of `hosts`, ordered by (pod, rack, host); equal positions keep their order.
// ENSURES: a permutation of 0 … hosts.size() − 1. In a ring, the hosts of each pod and of each rack
// are adjacent, so each is entered and left once. Depends only on the positions (except ties): all
// hosts of a communicator compute the same ring.
std::vector<HostIndex> LocalityOrder(std::span<const Position> hosts);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_LOCALITY_H_
