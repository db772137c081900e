// The simulated cluster of "MCCS" (SIGCOMM 2024), and jobs on it, for benchmarks of policies: 24
// racks of four hosts with eight GPUs and eight NICs of 200 Gb/s each, 768 GPUs; 16 spines with
// links of 200 Gb/s to each leaf, half of what a rack's NICs carry.
#ifndef MCCS_BENCH_PAPER_CLUSTER_H_
#define MCCS_BENCH_PAPER_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "controller/cluster_view.h"
#include "topology/topology.h"

namespace mccs {

inline constexpr int kPaperHosts = 96;
inline constexpr int kGpusPerHost = 8;

// Host h0 … h95, rack by rack; NIC n of host h of rack r has the address 10.r.h.n (h within the
// rack). Source ports are mapped by the switches' hash, or by rules: a range for each spine.
std::shared_ptr<const Topology> PaperCluster(SourcePortMapping::Kind mapping);

// Its hosts, without communicators.
ClusterView PaperView(std::shared_ptr<const Topology> topology);

// A rank on each of these GPUs of each host, the hosts in the order of their first ranks. One
// channel, until a policy makes one for each NIC.
CommunicatorView PaperJob(uint64_t id, const std::string& tenant,
                          const std::vector<std::string>& hosts,
                          const std::vector<std::vector<int>>& gpus);

}  // namespace mccs

#endif  // MCCS_BENCH_PAPER_CLUSTER_H_
