#include "topology/reachability.h"

#include <algorithm>
#include <utility>

namespace mccs {
namespace {

bool ShareOne(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](int32_t component) {
    return std::find(b.begin(), b.end(), component) != b.end();
  });
}

}  // namespace

std::vector<int32_t> ComponentsOfSwitches(const Topology& topology, const std::vector<bool>& down) {
  constexpr int32_t kNone = -1;
  std::vector<int32_t> component(topology.switches().size(), kNone);
  int32_t components = 0;
  for (size_t i = 0; i < component.size(); ++i) {
    if (component[i] != kNone) continue;
    std::vector<SwitchId> queue = {SwitchId(static_cast<int32_t>(i))};
    component[i] = components;
    for (size_t next = 0; next < queue.size(); ++next) {
      for (const auto& hop : topology.NeighboursOf(queue[next])) {
        if (component[hop.to.value()] != kNone) continue;
        if (!down.empty() && down[LinkOf(hop.arc).value()]) continue;
        component[hop.to.value()] = components;
        queue.push_back(hop.to);
      }
    }
    ++components;
  }
  return component;
}

std::vector<Unreachable> FindUnreachable(const Topology& topology) {
  const std::vector<int32_t> component_of = ComponentsOfSwitches(topology);
  // The distinct sets of components of hosts, with the first host of each; there are few.
  std::vector<std::pair<std::vector<int32_t>, HostId>> seen;
  std::vector<Unreachable> unreachable;
  for (size_t i = 0; i < topology.hosts().size(); ++i) {
    const HostId id(static_cast<int32_t>(i));
    std::vector<int32_t> components;
    for (const NicId nic : topology.host(id).nics)
      components.push_back(component_of[topology.nic(nic).attached_to.value()]);
    std::sort(components.begin(), components.end());
    components.erase(std::unique(components.begin(), components.end()), components.end());
    const auto apart = std::find_if(seen.begin(), seen.end(), [&](const auto& other) {
      return !ShareOne(components, other.first);
    });
    if (apart != seen.end()) unreachable.push_back({.host = id, .from = apart->second});
    const auto known = std::find_if(seen.begin(), seen.end(),
                                    [&](const auto& other) { return other.first == components; });
    if (known == seen.end()) seen.emplace_back(std::move(components), id);
  }
  return unreachable;
}

}  // namespace mccs
