// Views of clusters for tests of policies.
#ifndef MCCS_TESTS_UNIT_POLICY_CLUSTERS_H_
#define MCCS_TESTS_UNIT_POLICY_CLUSTERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/cluster_views.h"
#include "tests/unit/topology/small_topologies.h"

namespace mccs {

// LeafSpine with a GPU near each NIC. The leaves route equal parts of the 4000 candidate ports over
// each spine, ascending from 61000.
std::shared_ptr<const Topology> RoutedLeafSpine(const LeafSpineShape& shape);

// Appends a communicator with a rank on each of `gpus` of each host and `channels` channels, whose
// rings take the hosts in the given order.
CommunicatorView& AddCommunicator(ClusterView* view, uint64_t id, const std::string& tenant,
                                  const std::vector<std::string>& hosts,
                                  const std::vector<int>& gpus = {0}, int channels = 1);

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_POLICY_CLUSTERS_H_
