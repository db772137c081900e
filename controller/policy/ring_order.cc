#include "controller/policy/ring_order.h"

#include <algorithm>

#include "topology/position.h"

namespace mccs {

std::vector<HostIndex> LocalityRingOrder(const ClusterView& view,
                                         const CommunicatorView& communicator,
                                         const std::vector<std::string>& first) {
  std::vector<Position> positions;
  for (const std::string& name : communicator.hosts) {
    const auto host = std::find_if(view.hosts.begin(), view.hosts.end(),
                                   [&](const HostView& h) { return h.position.host == name; });
    positions.push_back(host != view.hosts.end() ? host->position : Position{"", "", name});
  }
  std::vector<HostIndex> ring = LocalityOrder(positions);
  const auto place = [&](HostIndex host) {
    return std::find(first.begin(), first.end(), communicator.hosts[host.value()]) - first.begin();
  };
  std::stable_sort(ring.begin(), ring.end(),
                   [&](HostIndex a, HostIndex b) { return place(a) < place(b); });
  return ring;
}

std::vector<HostIndex> RankRingOrder(const CommunicatorView& communicator) {
  std::vector<HostIndex> ring;
  for (size_t h = 0; h < communicator.hosts.size(); ++h)
    ring.push_back(HostIndex(static_cast<int32_t>(h)));
  const std::vector<int>& ranks = communicator.first_ranks;
  if (ranks.size() != ring.size()) return ring;
  std::stable_sort(ring.begin(), ring.end(),
                   [&](HostIndex a, HostIndex b) { return ranks[a.value()] < ranks[b.value()]; });
  return ring;
}

}  // namespace mccs
