#include "topology/source_port_map.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "topology/linux_multipath_hash.h"
#include "topology/port_rules.h"

namespace mccs {

absl::StatusOr<std::optional<PathIndex>> SourcePortMap::PathOf(const FlowEnds& flow,
                                                               uint16_t source_port) {
  MCCS_ASSIGN_OR_RETURN(FiveTuple tuple, TupleOf(flow));
  tuple.source_port = source_port;
  return Follow(flow, tuple);
}

absl::StatusOr<std::vector<std::vector<uint16_t>>> SourcePortMap::PortsByPath(
    const FlowEnds& flow) {
  MCCS_ASSIGN_OR_RETURN(FiveTuple tuple, TupleOf(flow));
  std::vector<std::vector<uint16_t>> ports(paths_.Between(flow.from, flow.to).size());
  const SourcePortRange& candidates = topology_.source_ports().candidates;
  for (uint32_t port = candidates.first; port <= candidates.last; ++port) {
    tuple.source_port = static_cast<uint16_t>(port);
    if (const std::optional<PathIndex> path = Follow(flow, tuple))
      ports[path->value()].push_back(tuple.source_port);
  }
  return ports;
}

absl::StatusOr<FiveTuple> SourcePortMap::TupleOf(const FlowEnds& flow) const {
  FiveTuple tuple = {.protocol = flow.protocol, .destination_port = flow.destination_port};
  switch (topology_.source_ports().kind) {
    case SourcePortMapping::Kind::kProbe:
      return absl::FailedPreconditionError(
          "source ports are mapped to paths by probing, so that a path has to be measured");
    case SourcePortMapping::Kind::kRules:
      return tuple;
    case SourcePortMapping::Kind::kHash:
      break;
  }
  for (const auto& [nic, address] : {std::pair(flow.from, &tuple.source_address),
                                     std::pair(flow.to, &tuple.destination_address)}) {
    const std::optional<uint32_t> number = ParseIpv4(topology_.nic(nic).address);
    if (!number) {
      return absl::FailedPreconditionError(
          absl::StrCat("source ports are mapped to paths by a hash of IPv4 addresses, and NIC ",
                       topology_.NicName(nic), " has none in the topology; say its `address`"));
    }
    *address = *number;
  }
  return tuple;
}

std::optional<size_t> SourcePortMap::Choose(const FiveTuple& tuple, SwitchId at,
                                            std::span<const Topology::Neighbour> hops) const {
  if (hops.size() == 1) return 0;
  const SourcePortMapping& mapping = topology_.source_ports();
  if (mapping.kind == SourcePortMapping::Kind::kRules)
    return ChooseByRules(mapping.rules, at, hops, tuple.source_port);
  const uint32_t seed = topology_.switch_of(at).hash_seed.value_or(mapping.hash.seed);
  return LinuxNextHop(LinuxMultipathHash(tuple, mapping.hash.fields, seed), hops.size());
}

std::optional<PathIndex> SourcePortMap::Follow(const FlowEnds& flow, const FiveTuple& tuple) {
  const PathSet paths = paths_.Between(flow.from, flow.to);
  SwitchId at = topology_.nic(flow.from).attached_to;
  const SwitchId toward = topology_.nic(flow.to).attached_to;
  Path way;
  while (at != toward) {
    const auto hops = paths_.NextHops(at, toward);
    if (hops.empty()) return std::nullopt;
    const std::optional<size_t> choice = Choose(tuple, at, hops);
    if (!choice) return std::nullopt;
    way.push_back(hops[*choice].arc);
    at = hops[*choice].to;
  }
  for (int32_t i = 0; i < paths.size(); ++i) {
    const auto fabric = paths.Fabric(PathIndex(i));
    if (std::equal(fabric.begin(), fabric.end(), way.begin(), way.end())) return PathIndex(i);
  }
  return std::nullopt;
}

}  // namespace mccs
