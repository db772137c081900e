#include "topology/hop_path.h"

#include <utility>

namespace mccs {
namespace {

FiveTuple WithoutPort(FiveTuple flow) {
  flow.source_port = 0;
  return flow;
}

}  // namespace

void ProbedPaths::Set(const FiveTuple& flow, Hops hops) {
  flows_[WithoutPort(flow)][flow.source_port] = std::move(hops);
}

void ProbedPaths::Erase(const FiveTuple& flow) {
  const auto known = flows_.find(WithoutPort(flow));
  if (known == flows_.end()) return;
  known->second.erase(flow.source_port);
  if (known->second.empty()) flows_.erase(known);
}

const Hops* ProbedPaths::Find(const FiveTuple& flow) const {
  const ByPort& ports = PortsOf(flow);
  const auto known = ports.find(flow.source_port);
  return known != ports.end() ? &known->second : nullptr;
}

const ProbedPaths::ByPort& ProbedPaths::PortsOf(FiveTuple flow) const {
  static const auto& none = *new ByPort;
  const auto known = flows_.find(WithoutPort(flow));
  return known != flows_.end() ? known->second : none;
}

namespace {

// The switch at the end of the arc.
SwitchId HeadOf(const Topology& topology, ArcId arc) {
  const Topology::Link& link = topology.link(LinkOf(arc));
  return IsForward(arc) ? link.b : link.a;
}

}  // namespace

SwitchAddresses::SwitchAddresses(const Topology& topology) : named_(topology.switches().size()) {
  for (size_t i = 0; i < topology.switches().size(); ++i) {
    for (const std::string& text : topology.switches()[i].addresses) {
      const std::optional<uint32_t> address = ParseIpv4(text);
      if (!address) continue;
      switches_.try_emplace(*address, static_cast<int32_t>(i));
      named_[i] = true;
    }
  }
}

bool SwitchAddresses::MayBe(uint32_t hop, SwitchId at) const {
  if (hop == 0) return true;
  const auto known = switches_.find(hop);
  return known != switches_.end() ? known->second == at : !named_[at.value()];
}

std::optional<PathIndex> PathOfHops(const Topology& topology, const SwitchAddresses& addresses,
                                    const PathSet& paths, NicId from, const Hops& hops) {
  if (paths.empty() || hops.size() != static_cast<size_t>(paths.fabric()->hops) + 1)
    return std::nullopt;
  if (!addresses.MayBe(hops[0], topology.nic(from).attached_to)) return std::nullopt;
  std::optional<PathIndex> found;
  for (int32_t p = 0; p < paths.size(); ++p) {
    size_t hop = 0;
    bool fits = true;
    for (const ArcId arc : paths.Fabric(PathIndex(p)))
      fits = fits && addresses.MayBe(hops[++hop], HeadOf(topology, arc));
    if (!fits) continue;
    if (found) return std::nullopt;
    found = PathIndex(p);
  }
  return found;
}

}  // namespace mccs
