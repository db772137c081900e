// Which source port leads a flow over which path. For the mappings `rules` and `hash` it is worked
// out from the topology file: each switch on the way chooses among its equal next hops for itself.
// For `probe` it is what probes have found.
//
// THREAD: one.
#ifndef MCCS_TOPOLOGY_SOURCE_PORT_MAP_H_
#define MCCS_TOPOLOGY_SOURCE_PORT_MAP_H_

#include <cstdint>
#include <map>
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
#include "topology/hop_path.h"
#include "topology/probed_paths.h"
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
  // hops, as for the switches. `probed` is for the mapping `probe`; null: nothing is.
  SourcePortMap(const Topology& topology, EcmpPaths& paths,
                std::shared_ptr<const ProbedPaths> probed = nullptr);

  // The path of a flow from `source_port`. Nothing: no rule decides, or no links lead there, or
  // there are several and no probe has told which.
  // kFailedPrecondition, from all: by `hash` or `probe`, one of the NICs has no IPv4 address in the
  // topology, or by `probe` no switch has. The text says so. Not where `probe` has but one path to
  // find.
  absl::StatusOr<std::optional<PathIndex>> PathOf(const FlowEnds& flow, uint16_t source_port);

  // As PathOf's errors.
  absl::Status CheckKnown(const FlowEnds& flow);

  // By path: the candidate ports that lead over it, ascending. Some paths may have none.
  absl::StatusOr<std::vector<std::vector<uint16_t>>> PortsByPath(const FlowEnds& flow);

  // A candidate port within `limits` that leads over `path` and that `is_free` accepts. The search
  // goes once around all of them, from one that `start` picks. Nothing: there is none.
  absl::StatusOr<std::optional<uint16_t>> FindPort(const FlowEnds& flow, PathIndex path,
                                                   SourcePortRange limits, uint64_t start,
                                                   absl::FunctionRef<bool(uint16_t)> is_free);

  // By `probe` alone.
  bool ByProbe() const { return topology_.source_ports().kind == SourcePortMapping::Kind::kProbe; }
  absl::StatusOr<FiveTuple> TupleOf(const FlowEnds& flow) const;  // with source port 0
  // The ports of which probes have told anything, ascending, each with its path if that followed.
  using ProbedPorts = std::vector<std::pair<uint16_t, std::optional<PathIndex>>>;
  absl::StatusOr<const ProbedPorts*> Probed(const FlowEnds& flow);

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
  const ProbedPorts& ProbedPortsOf(const FlowEnds& flow, const FiveTuple& tuple);
  // By `probe`, and there is nothing to find out.
  bool OneWayOnly(const FlowEnds& flow);
  std::optional<PathIndex> FollowProbes(const FlowEnds& flow, const FiveTuple& tuple);
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
  const std::shared_ptr<const ProbedPaths> probed_;  // not null
  const SwitchAddresses switch_addresses_;
  std::map<FiveTuple, ProbedPorts> probed_ports_;  // as they were asked for
};

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_SOURCE_PORT_MAP_H_
