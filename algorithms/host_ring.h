// Inside of BuildPlan: the ring of a channel, as one host sees it.
#ifndef MCCS_ALGORITHMS_HOST_RING_H_
#define MCCS_ALGORITHMS_HOST_RING_H_

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

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_HOST_RING_H_
