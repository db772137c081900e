// The simulated cluster of "MCCS" (SIGCOMM 2024), for benchmarks of policies: 24
// racks of four hosts with eight GPUs and eight NICs of 200 Gb/s each, 768 GPUs; 16 spines with
// links of 200 Gb/s to each leaf, half of what a rack's NICs carry.
#ifndef MCCS_BENCH_PAPER_CLUSTER_H_
#define MCCS_BENCH_PAPER_CLUSTER_H_

#include <memory>

#include "topology/topology.h"

namespace mccs {

inline constexpr int kPaperHosts = 96;
inline constexpr int kGpusPerHost = 8;

// Host h0 … h95, rack by rack; NIC n of host h of rack r has the address 10.r.h.n (h within the
// rack). Source ports are mapped by the switches' hash, or by rules: a range for each spine.
std::shared_ptr<const Topology> PaperCluster(SourcePortMapping::Kind mapping);

}  // namespace mccs

#endif  // MCCS_BENCH_PAPER_CLUSTER_H_
