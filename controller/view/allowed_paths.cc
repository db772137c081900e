#include "controller/view/allowed_paths.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace mccs {
namespace {

// Those of `from` without an avoided link, or all if there are none.
template <typename Avoided>
std::vector<PathIndex> Without(const PathSet& paths, std::vector<PathIndex> from, Avoided avoided) {
  std::vector<PathIndex> without;
  for (const PathIndex path : from) {
    const auto arcs = paths.Fabric(path);
    if (std::none_of(arcs.begin(), arcs.end(), [&](ArcId arc) { return avoided(LinkOf(arc)); }))
      without.push_back(path);
  }
  return without.empty() ? from : without;
}

bool AnyPort(uint16_t /*port*/) { return true; }

AllowedPaths::Allowed Find(Fabric* fabric, const Flow& flow, const AllowedPaths::Limits& limits) {
  const Topology& topology = fabric->topology();
  const bool by_probe = fabric->ports().ByProbe();
  const bool by_rules = topology.source_ports().kind == SourcePortMapping::Kind::kRules;
  std::vector<bool> avoided(topology.links().size());
  for (const std::string& name : limits.avoid_links) {
    if (const std::optional<LinkId> link = topology.FindLink(name)) avoided[link->value()] = true;
  }
  const PathSet paths = fabric->paths().Between(flow.from_nic, flow.to_nic);
  std::vector<PathIndex> allowed;
  for (int32_t p = 0; p < paths.size(); ++p) {
    // With a hash, every path has some port.
    if (by_rules || by_probe) {
      const auto port =
          fabric->ports().FindPort(flow.Ends(), PathIndex(p), limits.ports, 0, AnyPort);
      if (!port.ok() || !*port) continue;
    }
    allowed.push_back(PathIndex(p));
  }
  AllowedPaths::Allowed found;
  found.any_port = !by_probe || !allowed.empty();
  allowed = Without(paths, std::move(allowed), [&](LinkId l) { return fabric->IsDrained(l); });
  allowed = Without(paths, std::move(allowed), [&](LinkId l) { return avoided[l.value()]; });
  if (!allowed.empty() && allowed.size() < static_cast<size_t>(paths.size()))
    found.paths = std::make_unique<const std::vector<PathIndex>>(std::move(allowed));
  return found;
}

}  // namespace

int AllowedPaths::NumberOf(const Limits& limits) {
  const auto [entry, is_new] =
      numbers_.try_emplace({limits.avoid_links, limits.ports.first, limits.ports.last},
                           static_cast<int>(limits_.size()));
  if (is_new) limits_.push_back(limits);
  return entry->second;
}

const AllowedPaths::Allowed& AllowedPaths::Get(Fabric* fabric, const Flow& flow, int limits) {
  const auto end = [&](NicId nic) {
    return fabric->ports().ByProbe() ? nic.value()
                                     : fabric->topology().nic(nic).attached_to.value();
  };
  std::unique_ptr<Allowed>& allowed =
      allowed_[{fabric, end(flow.from_nic), end(flow.to_nic), limits}];
  if (allowed == nullptr) allowed = std::make_unique<Allowed>(Find(fabric, flow, limits_[limits]));
  return *allowed;
}

}  // namespace mccs
