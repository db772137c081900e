#include "topology/reachability.h"

#include <algorithm>
#include <utility>

namespace mccs {
namespace {

// By switch: the number of the fabric that it belongs to, switches that reach each other having the
// same.
std::vector<int32_t> FabricOfSwitches(const Topology& topology) {
  constexpr int32_t kNone = -1;
  std::vector<int32_t> fabric(topology.switches().size(), kNone);
  int32_t fabrics = 0;
  for (size_t i = 0; i < fabric.size(); ++i) {
    if (fabric[i] != kNone) continue;
    std::vector<SwitchId> queue = {SwitchId(static_cast<int32_t>(i))};
    fabric[i] = fabrics;
    for (size_t next = 0; next < queue.size(); ++next) {
      for (const auto& hop : topology.NeighboursOf(queue[next])) {
        if (fabric[hop.to.value()] != kNone) continue;
        fabric[hop.to.value()] = fabrics;
        queue.push_back(hop.to);
      }
    }
    ++fabrics;
  }
  return fabric;
}

bool ShareOne(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](int32_t fabric) {
    return std::find(b.begin(), b.end(), fabric) != b.end();
  });
}

}  // namespace

std::vector<Unreachable> FindUnreachable(const Topology& topology) {
  const std::vector<int32_t> fabric_of = FabricOfSwitches(topology);
  // Each set of fabrics that a host stands in, with the first such host: there are few.
  std::vector<std::pair<std::vector<int32_t>, HostId>> seen;
  std::vector<Unreachable> unreachable;
  for (size_t i = 0; i < topology.hosts().size(); ++i) {
    const HostId id(static_cast<int32_t>(i));
    std::vector<int32_t> fabrics;
    for (const NicId nic : topology.host(id).nics)
      fabrics.push_back(fabric_of[topology.nic(nic).attached_to.value()]);
    std::sort(fabrics.begin(), fabrics.end());
    fabrics.erase(std::unique(fabrics.begin(), fabrics.end()), fabrics.end());
    const auto apart = std::find_if(seen.begin(), seen.end(), [&](const auto& other) {
      return !ShareOne(fabrics, other.first);
    });
    if (apart != seen.end()) unreachable.push_back({.host = id, .from = apart->second});
    const auto known = std::find_if(seen.begin(), seen.end(),
                                    [&](const auto& other) { return other.first == fabrics; });
    if (known == seen.end()) seen.emplace_back(std::move(fabrics), id);
  }
  return unreachable;
}

}  // namespace mccs
