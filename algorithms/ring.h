// Inside of BuildPlan: one host's program on one channel's ring, for each kind that supports rings
// (source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", JPDC 2009; the ring over hosts with a fused local part is new here). Hop k of a
// ring is the k-th simultaneous send of all hosts; its data has made k hops.
//
// Cost per host, H hosts, N bytes: all-reduce 2N(H−1)/H bytes on each lane in 2(H−1) hops;
// all-gather and reduce-scatter N(H−1)/H in H−1 hops, N being the larger buffer; broadcast and
// reduce N in H−1 hops. Each local input is read once, each local output written once; data that is
// copied to further local ranks is read once more where it landed.
#ifndef MCCS_ALGORITHMS_RING_H_
#define MCCS_ALGORITHMS_RING_H_

#include <memory>
#include <vector>

#include "algorithms/host_ring.h"
#include "algorithms/plan.h"
#include "algorithms/program_build.h"

namespace mccs {

// Parts of an all-gather's or a reduce-scatter's plan: the largest number of ranks of a host.
// Part i has the blocks of the i-th rank of each host.

// REQUIRES for all: ring.hosts() ≥ 2.
// The first three are built hop by hop. LIFETIME: what `ring` refers to outlives the build.
std::unique_ptr<ProgramBuild> RingAllReduce(const Ring& ring, bool scaled);
std::unique_ptr<ProgramBuild> RingReduceScatter(const PlanKey& key, const Ring& ring);
std::unique_ptr<ProgramBuild> RingAllGather(const PlanKey& key, const Ring& ring);
// `root_local`: position of the root among the ranks of `root_host`.
Program RingBroadcast(const Ring& ring, HostIndex root_host, LocalIndex root_local);
Program RingReduce(const Ring& ring, HostIndex root_host, LocalIndex root_local, bool scaled);

// The program on a single host, for any of these kinds. REQUIRES: `ranks` are all ranks.
Program LocalProgram(const PlanKey& key, const std::vector<Rank>& ranks, ChannelId channel);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_RING_H_
