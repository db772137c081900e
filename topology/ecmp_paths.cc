#include "topology/ecmp_paths.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"

namespace mccs {
namespace {

constexpr int32_t kFar = -1;

}  // namespace

Path PathSet::operator[](PathIndex path) const {
  const std::span<const ArcId> fabric = Fabric(path);
  Path arcs = {out_};
  arcs.insert(arcs.end(), fabric.begin(), fabric.end());
  arcs.push_back(into_);
  return arcs;
}

EcmpPaths::EcmpPaths(const Topology& topology, std::vector<bool> down)
    : topology_(topology), down_(std::move(down)), trees_(topology.switches().size()) {
  MCCS_CHECK(down_.empty() || down_.size() == topology.links().size());
}

PathSet EcmpPaths::Between(NicId from, NicId to) {
  MCCS_CHECK(from != to);
  const ArcId out = topology_.ArcOut(from), into = topology_.ArcInto(to);
  if (IsDown(out) || IsDown(into)) return {};
  const std::pair ends(topology_.nic(from).attached_to, topology_.nic(to).attached_to);
  auto found = fabric_.find(ends);
  if (found == fabric_.end()) {
    auto paths = std::make_unique<FabricPaths>(Enumerate(ends.first, ends.second));
    const absl::flat_hash_set<ArcId> distinct(paths->arcs.begin(), paths->arcs.end());
    paths->disjoint = distinct.size() == paths->arcs.size();
    paths->number = static_cast<int32_t>(fabric_.size());
    found = fabric_.emplace(ends, std::move(paths)).first;
  }
  return {out, into, found->second.get()};
}

std::span<const Topology::Neighbour> EcmpPaths::NextHops(SwitchId at, SwitchId toward) {
  const Tree& tree = TreeToward(toward);
  const int32_t begin = tree.begin[at.value()], end = tree.begin[at.value() + 1];
  return {tree.next_hops.data() + begin, static_cast<size_t>(end - begin)};
}

// Breadth-first search from `toward`. Links are bidirectional, so distances are symmetric.
std::vector<int32_t> EcmpPaths::DistancesTo(SwitchId toward) const {
  std::vector<int32_t> distance(topology_.switches().size(), kFar);
  std::vector<SwitchId> queue = {toward};
  distance[toward.value()] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const auto& [arc, to] : topology_.NeighboursOf(queue[i])) {
      if (IsDown(arc) || distance[to.value()] != kFar) continue;
      distance[to.value()] = distance[queue[i].value()] + 1;
      queue.push_back(to);
    }
  }
  return distance;
}

const EcmpPaths::Tree& EcmpPaths::TreeToward(SwitchId toward) {
  auto& tree = trees_[toward.value()];
  if (tree) return *tree;
  tree = std::make_unique<Tree>();
  const std::vector<int32_t> distance = DistancesTo(toward);
  tree->begin.push_back(0);
  for (size_t i = 0; i < distance.size(); ++i) {
    for (const auto& hop : topology_.NeighboursOf(SwitchId(static_cast<int32_t>(i)))) {
      if (distance[i] > 0 && distance[hop.to.value()] == distance[i] - 1 && !IsDown(hop.arc))
        tree->next_hops.push_back(hop);
    }
    tree->begin.push_back(static_cast<int32_t>(tree->next_hops.size()));
  }
  return *tree;
}

// Depth first, next hops in their order.
FabricPaths EcmpPaths::Enumerate(SwitchId from, SwitchId to) {
  if (from == to) return {.count = 1, .hops = 0, .arcs = {}};
  FabricPaths paths;
  struct Choice {
    std::span<const Topology::Neighbour> hops;
    size_t taken;
  };
  std::vector<Choice> way = {{NextHops(from, to), 0}};
  while (!way.empty() && paths.count < kMaxPathsOfPair) {
    const Choice& last = way.back();
    if (last.taken == last.hops.size()) {
      way.pop_back();
      if (!way.empty()) ++way.back().taken;
      continue;
    }
    const SwitchId next = last.hops[last.taken].to;
    if (next != to) {
      way.push_back({NextHops(next, to), 0});
      continue;
    }
    for (const Choice& choice : way) paths.arcs.push_back(choice.hops[choice.taken].arc);
    ++paths.count;
    paths.hops = static_cast<int32_t>(way.size());
    ++way.back().taken;
  }
  return paths;
}

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
