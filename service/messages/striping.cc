#include "service/messages/striping.h"

#include <vector>

namespace mccs {

int HomeLane(const Layout& layout, std::span<const HostIndex> host_of, const RankPair& pair,
             int home_lanes) {
  const auto [lower, higher] = std::minmax(pair.source, pair.destination);
  const HostIndex host = host_of[static_cast<size_t>(lower.value())];
  const HostIndex other = host_of[static_cast<size_t>(higher.value())];
  const std::vector<Rank>& ranks = layout.hosts[static_cast<size_t>(host.value())];
  const auto local = static_cast<size_t>(std::ranges::lower_bound(ranks, lower) - ranks.begin());
  // Half the sum differs for the neighbours of a ring: (0, 1), (1, 2), (2, 3), …
  const auto hosts = static_cast<size_t>((host.value() + other.value()) / 2);
  return static_cast<int>((local + ranks.size() * hosts) % static_cast<size_t>(home_lanes));
}

}  // namespace mccs
