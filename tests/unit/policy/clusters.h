// Clusters as policies see them, put together for tests.
#ifndef MCCS_TESTS_UNIT_POLICY_CLUSTERS_H_
#define MCCS_TESTS_UNIT_POLICY_CLUSTERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/cluster_views.h"
#include "tests/unit/topology/small_topologies.h"

namespace mccs {

// LeafSpine with a GPU near each NIC, and rules by which the leaves send equal parts of the
// 4000 candidate ports over each spine, ascending from 61000.
std::shared_ptr<const Topology> RoutedLeafSpine(const LeafSpineShape& shape);

// With a rank on each of `gpus` of each host, one after the other, and as many channels, whose
// rings take the hosts as they stand. Puts it behind the others.
CommunicatorView& AddCommunicator(ClusterView* view, uint64_t id, const std::string& tenant,
                                  const std::vector<std::string>& hosts,
                                  const std::vector<int>& gpus = {0}, int channels = 1);

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_POLICY_CLUSTERS_H_
