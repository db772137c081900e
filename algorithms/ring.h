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

#include <vector>

#include "algorithms/plan.h"

namespace mccs {

// One channel's ring from the position of one host.
class Ring {
 public:
  // `home`: the channel's home rank on this host. REQUIRES: `self` is in `order`.
  // LIFETIME: `layout` and `order` outlive the ring.
  Ring(const Layout& layout, const std::vector<HostIndex>& order, ChannelId channel, HostIndex self,
       LocalIndex home = LocalIndex(0));

  int hosts() const { return static_cast<int>(order_.size()); }
  // Position of this host in the order.
  int position() const { return position_; }
  ChannelId channel() const { return channel_; }
  // The host whose slices reach this host after `hops` hops; −1 is the next host. REQUIRES:
  // |hops| ≤ hosts().
  HostIndex HostAtDistance(int hops) const;
  HostIndex next() const { return HostAtDistance(-1); }
  HostIndex previous() const { return HostAtDistance(1); }
  // Hops from `from` to this host.
  int HopsFrom(HostIndex from) const;

  const std::vector<Rank>& RanksOf(HostIndex host) const { return layout_.hosts[host.value()]; }
  const std::vector<Rank>& local() const { return RanksOf(HostAtDistance(0)); }
  LocalIndex home() const { return home_; }

 private:
  const Layout& layout_;
  const std::vector<HostIndex>& order_;
  ChannelId channel_;
  int position_ = 0;
  LocalIndex home_;
};

// Parts of an all-gather's or a reduce-scatter's plan: the largest number of ranks of a host.
// Part i has the blocks of the i-th rank of each host.

// REQUIRES for all: ring.hosts() ≥ 2.
Program RingAllReduce(const Ring& ring, bool scaled);
Program RingReduceScatter(const PlanKey& key, const Ring& ring);
Program RingAllGather(const PlanKey& key, const Ring& ring);
// `root_local`: position of the root among the ranks of `root_host`.
Program RingBroadcast(const Ring& ring, HostIndex root_host, LocalIndex root_local);
Program RingReduce(const Ring& ring, HostIndex root_host, LocalIndex root_local, bool scaled);

// The program on a single host, for any of these kinds. REQUIRES: `ranks` are all ranks.
Program LocalProgram(const PlanKey& key, const std::vector<Rank>& ranks, ChannelId channel);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_RING_H_
