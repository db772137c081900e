// Clusters and jobs as policies see them, put together for benchmarks and tests.
#ifndef MCCS_BENCH_CLUSTER_VIEWS_H_
#define MCCS_BENCH_CLUSTER_VIEWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "controller/cluster_view.h"
#include "topology/topology.h"

namespace mccs {

inline constexpr uint16_t kPeerPort = 7400;

// Equal parts of the candidates lead over each of the switches spine0, spine1 …, ascending.
SourcePortMapping RulesBySpine(const Topology& topology, int spines, SourcePortRange candidates);

// All hosts of the topology, ready. NIC n of host h has the address 10.h.0.n, if the topology says
// none; the daemons are reached at the first one.
ClusterView ViewOf(std::shared_ptr<const Topology> topology);

// A rank on each of these GPUs of each host, the hosts in the order of their first ranks. The rings
// of the channels take the hosts as they stand.
CommunicatorView MakeJob(uint64_t id, const std::string& tenant,
                         const std::vector<std::string>& hosts,
                         const std::vector<std::vector<int>>& gpus, int channels = 1);

}  // namespace mccs

#endif  // MCCS_BENCH_CLUSTER_VIEWS_H_
