// Small topologies for tests.
#ifndef MCCS_TESTS_UNIT_TOPOLOGY_SMALL_TOPOLOGIES_H_
#define MCCS_TESTS_UNIT_TOPOLOGY_SMALL_TOPOLOGIES_H_

#include <cstdint>
#include <random>
#include <vector>

#include "topology/max_min_shares.h"
#include "topology/topology.h"

namespace mccs {

struct LeafSpineShape {
  int racks = 2;
  int hosts_per_rack = 2;
  int nics_per_host = 1;
  int spines = 2;
  uint64_t nic_bps = 100;
  uint64_t uplink_bps = 100;
};
// Hosts h0, h1, … by rack; switches leaf0, … and spine0, …
Topology LeafSpine(const LeafSpineShape& shape);

// Two pods of two leaves and two aggregation switches ("agg0", "agg1" in pod 0), connected by four
// cores: the first agg of each pod to core0 and core1, the second to core2 and core3. One host per
// leaf.
Topology ThreeTiers();

// Flows between random NICs of different hosts over random paths, with random weights, and
// sometimes a demand, a cap or a guarantee. Guarantees may exceed capacities.
std::vector<FlowDemand> RandomFlows(const Topology& topology, size_t count, double unit_bps,
                                    std::mt19937& random);

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_TOPOLOGY_SMALL_TOPOLOGIES_H_
