// The simulated cluster of "MCCS" (SIGCOMM 2024), for benchmarks of policies: 768 GPUs in 24 racks
// of four hosts with eight GPUs and eight NICs of 200 Gbit/s each; 16 spines with links of
// 200 Gbit/s to each leaf, half the rate of a rack's NICs.
#ifndef MCCS_BENCH_PAPER_CLUSTER_H_
#define MCCS_BENCH_PAPER_CLUSTER_H_

#include <memory>

#include "topology/topology.h"

namespace mccs {

inline constexpr int kPaperHosts = 96;
inline constexpr int kGpusPerHost = 8;

// Hosts h0 … h95, rack by rack; NIC n of host h of rack r has the address 10.r.h.n (h within the
// rack). `mapping` of source ports: the switches' hash, or rules with a range for each spine.
std::shared_ptr<const Topology> PaperCluster(SourcePortMapping::Kind mapping);

}  // namespace mccs

#endif  // MCCS_BENCH_PAPER_CLUSTER_H_
