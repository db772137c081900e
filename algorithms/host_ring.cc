#include "algorithms/host_ring.h"

#include <algorithm>

namespace mccs {

Ring::Ring(const Layout& layout, const std::vector<HostIndex>& order, ChannelId channel,
           HostIndex self, LocalIndex home)
    : layout_(layout),
      order_(order),
      channel_(channel),
      position_(static_cast<int>(std::find(order.begin(), order.end(), self) - order.begin())),
      home_(home) {}

HostIndex Ring::HostAtDistance(int hops) const {
  return order_[static_cast<size_t>((position_ - hops + hosts()) % hosts())];
}

int Ring::HopsFrom(HostIndex from) const {
  const int other =
      static_cast<int>(std::find(order_.begin(), order_.end(), from) - order_.begin());
  return (position_ - other + hosts()) % hosts();
}

}  // namespace mccs
