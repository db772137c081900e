// Which source port leads a flow over which path, worked out from the topology file: for the
// mappings `rules` and `hash`. Each switch on the way chooses among its equal next hops for itself.
//
// THREAD: one.
#ifndef MCCS_TOPOLOGY_SOURCE_PORT_MAP_H_
#define MCCS_TOPOLOGY_SOURCE_PORT_MAP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "topology/ecmp_paths.h"
#include "topology/five_tuple.h"
#include "topology/topology.h"

namespace mccs {

// A flow, but for its source port.
struct FlowEnds {
  NicId from;
  NicId to;
  uint8_t protocol = kProtocolTcp;
  uint16_t destination_port = 0;
};

class SourcePortMap {
 public:
  // LIFETIME: both outlive this. `paths` is of `topology`; links that it counts as down are no next
  // hops, as for the switches.
  SourcePortMap(const Topology& topology, EcmpPaths& paths);

  // The path of a flow from `source_port`. Nothing: no rule decides, or no links lead there.
  // kFailedPrecondition, from both: the mapping is `probe`, or `hash` and one of the NICs has no
  // IPv4 address in the topology. The text says so.
  absl::StatusOr<std::optional<PathIndex>> PathOf(const FlowEnds& flow, uint16_t source_port);

  // By path: the candidate ports that lead over it, ascending. Some paths may have none.
  absl::StatusOr<std::vector<std::vector<uint16_t>>> PortsByPath(const FlowEnds& flow);

  // A candidate port within `limits` that leads over `path` and that `is_free` accepts. The search
  // goes once around all of them, from one that `start` picks. Nothing: there is none.
  absl::StatusOr<std::optional<uint16_t>> FindPort(const FlowEnds& flow, PathIndex path,
                                                   SourcePortRange limits, uint64_t start,
                                                   absl::FunctionRef<bool(uint16_t)> is_free);

 private:
  // Candidate ports that all take the same path.
  struct Run {
    SourcePortRange ports;
    std::optional<PathIndex> path;
  };
  // Of the ports between two switches, ascending. Rules look at the port alone.
  using Runs = std::vector<Run>;

  bool ByRules() const { return topology_.source_ports().kind == SourcePortMapping::Kind::kRules; }
  const Runs& RunsOf(const FlowEnds& flow);
  bool LeadsOver(const FlowEnds& flow, const FiveTuple& tuple, std::span<const ArcId> way);
  absl::StatusOr<FiveTuple> TupleOf(const FlowEnds& flow) const;
  std::optional<size_t> Choose(const FiveTuple& tuple, SwitchId at,
                               std::span<const Topology::Neighbour> hops) const;
  std::optional<PathIndex> Follow(const FlowEnds& flow, const FiveTuple& tuple);
  // Switch by switch.
  std::optional<PathIndex> FollowSwitches(const FlowEnds& flow, const FiveTuple& tuple);

  const Topology& topology_;
  EcmpPaths& paths_;
  const std::vector<std::optional<uint32_t>> addresses_;  // by NIC
  std::vector<SourcePortRange> unbroken_;                 // no rule begins or ends within one
  absl::flat_hash_map<std::pair<SwitchId, SwitchId>, std::unique_ptr<Runs>> runs_;
};

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_SOURCE_PORT_MAP_H_
