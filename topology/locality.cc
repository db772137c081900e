#include "topology/locality.h"

#include <algorithm>

namespace mccs {

std::vector<HostIndex> LocalityOrder(std::span<const Position> hosts) {
  std::vector<HostIndex> order;
  order.reserve(hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i) order.push_back(HostIndex(static_cast<int32_t>(i)));
  std::stable_sort(order.begin(), order.end(),
                   [&](HostIndex a, HostIndex b) { return hosts[a.value()] < hosts[b.value()]; });
  return order;
}

}  // namespace mccs
