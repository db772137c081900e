// Inside of BuildRingPlan: one host's program on one channel's ring, for each kind. Hop k of a ring
// is what all hosts send at once for the k-th time; its data has k hops behind it.
#ifndef MCCS_ALGORITHMS_RING_H_
#define MCCS_ALGORITHMS_RING_H_

#include <vector>

#include "algorithms/plan.h"

namespace mccs {

// One channel's ring as one host sees it.
class Ring {
 public:
  // REQUIRES: `self` stands in `order`. LIFETIME: `layout` and `order` outlive the ring.
  Ring(const Layout& layout, const std::vector<HostIndex>& order, ChannelId channel,
       HostIndex self);

  int hosts() const { return static_cast<int>(order_.size()); }
  ChannelId channel() const { return channel_; }
  // The host whose slices come here after `hops` hops; −1 is the next host. REQUIRES: |hops| ≤
  // hosts().
  HostIndex Behind(int hops) const;
  // Hops from `from` to this host.
  int HopsFrom(HostIndex from) const;

  const std::vector<Rank>& RanksOf(HostIndex host) const { return layout_.hosts[host.value()]; }
  const std::vector<Rank>& local() const { return RanksOf(Behind(0)); }

 private:
  const Layout& layout_;
  const std::vector<HostIndex>& order_;
  ChannelId channel_;
  int position_ = 0;
};

// REQUIRES for all: ring.hosts() ≥ 2.
Program RingAllReduce(const Ring& ring, bool scaled);
Program RingReduceScatter(const Ring& ring, bool scaled);
Program RingAllGather(const Ring& ring);
// `root_local`: position of the root among the ranks of `root_host`.
Program RingBroadcast(const Ring& ring, HostIndex root_host, LocalIndex root_local);
Program RingReduce(const Ring& ring, HostIndex root_host, LocalIndex root_local, bool scaled);

// The only host's program for any of these kinds.
Program LocalProgram(const PlanKey& key, const std::vector<Rank>& ranks, ChannelId channel);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_RING_H_
