// Builds the policies' views of clusters and jobs, for benchmarks and tests.
#ifndef MCCS_BENCH_CLUSTER_VIEWS_H_
#define MCCS_BENCH_CLUSTER_VIEWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "controller/view/cluster_view.h"
#include "topology/topology.h"

namespace mccs {

inline constexpr uint16_t kPeerPort = 7400;

// Port rules that map equal ranges of `candidates` to the switches spine0, spine1 …, ascending.
SourcePortMapping RulesBySpine(const Topology& topology, int spines, SourcePortRange candidates);

// A view in which all hosts of the topology are ready. NIC n of host h has the address 10.h.0.n
// unless the topology has one; daemons listen on the first NIC's address.
ClusterView ViewOf(std::shared_ptr<const Topology> topology);

// A job with a rank on each of `gpus` of each host. `hosts` is the order of their first ranks, and
// of the rings of all channels.
CommunicatorView MakeJob(uint64_t id, const std::string& tenant,
                         const std::vector<std::string>& hosts,
                         const std::vector<std::vector<int>>& gpus, int channels = 1);

// The simulated cluster of "MCCS" (SIGCOMM 2024), for benchmarks of policies: 768 GPUs in 24 racks
// of four hosts with eight GPUs and eight NICs of 200 Gbit/s each; 16 spines with links of
// 200 Gbit/s to each leaf, half the rate of a rack's NICs.

inline constexpr int kPaperHosts = 96;
inline constexpr int kGpusPerHost = 8;

// Hosts h0 … h95, rack by rack; NIC n of host h of rack r has the address 10.r.h.n (h within the
// rack). `mapping` of source ports: the switches' hash, or rules with a range for each spine.
std::shared_ptr<const Topology> PaperCluster(SourcePortMapping::Kind mapping);

}  // namespace mccs

#endif  // MCCS_BENCH_CLUSTER_VIEWS_H_
