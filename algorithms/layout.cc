#include <algorithm>

#include "algorithms/plan.h"
#include "base/check.h"

namespace mccs {

int Layout::rank_count() const {
  size_t ranks = 0;
  for (const auto& host : hosts) ranks += host.size();
  return static_cast<int>(ranks);
}

int Layout::max_local_ranks() const {
  size_t most = 0;
  for (const auto& host : hosts) most = std::max(most, host.size());
  return static_cast<int>(most);
}

HostIndex Layout::HostOf(Rank rank) const {
  for (int h = 0; h < host_count(); ++h) {
    if (std::binary_search(hosts[h].begin(), hosts[h].end(), rank)) return HostIndex(h);
  }
  MCCS_CHECK(!"the rank is in some host's list");
  return HostIndex(0);
}

}  // namespace mccs
