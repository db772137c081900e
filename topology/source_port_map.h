// Maps source ports of flows to paths. For `rules` and `hash` the mapping is computed from the
// topology file: each switch on the path chooses among its equal next hops. For `probe` it comes
// from probe results.
//
// THREAD: one.
#ifndef MCCS_TOPOLOGY_SOURCE_PORT_MAP_H_
#define MCCS_TOPOLOGY_SOURCE_PORT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "topology/ecmp_paths.h"
#include "topology/five_tuple.h"
#include "topology/hop_path.h"
#include "topology/topology.h"

namespace mccs {

// By the operator's rules: index of the next hop at the switch `at` for a packet with this source
// port: from the first rule that contains the port and names one of `next_hops`. Nothing: no rule
// applies, and the switch's choice is not known. A single next hop needs no rule.
std::optional<size_t> ChooseByRules(std::span<const PortRule> rules, SwitchId at,
                                    std::span<const Topology::Neighbour> next_hops,
                                    uint16_t source_port);

struct RuleProblem {
  size_t rule;  // index in the list
  std::string why;
};

// Finds rules that name two equal next hops of one switch, pairs of rules with a common port and
// different next hops, and rules that name no equal next hop. At most one problem per rule.
std::vector<RuleProblem> FindRuleProblems(const Topology& topology,
                                          std::span<const PortRule> rules);

// A flow without its source port.
struct FlowEnds {
  NicId from;
  NicId to;
  uint8_t protocol = kProtocolTcp;
  uint16_t destination_port = 0;
};

class SourcePortMap {
 public:
  // LIFETIME: both outlive this. `paths` belongs to `topology`; its down links are not next hops.
  // `probed`: results for the mapping `probe`; null: none.
  SourcePortMap(const Topology& topology, EcmpPaths& paths,
                std::shared_ptr<const ProbedPaths> probed = nullptr);

  // The path of a flow from `source_port`. Nothing: no rule applies, no links lead there, or there
  // are several paths and no probe result.
  // kFailedPrecondition, from all calls: with `hash` or `probe`, a NIC has no IPv4 address in the
  // topology; with `probe`, no switch has an address and there are several paths. The message says
  // which.
  absl::StatusOr<std::optional<PathIndex>> PathOf(const FlowEnds& flow, uint16_t source_port);

  // Errors as in PathOf.
  absl::Status CheckKnown(const FlowEnds& flow);

  // A candidate port within `limits` that leads over `path` and that `is_free` accepts. Searches
  // all candidates once, from a start given by `start`. Nothing: none.
  absl::StatusOr<std::optional<uint16_t>> FindPort(const FlowEnds& flow, PathIndex path,
                                                   SourcePortRange limits, uint64_t start,
                                                   absl::FunctionRef<bool(uint16_t)> is_free);

  // For the mapping `probe` only.
  bool ByProbe() const { return topology_.source_ports().kind == SourcePortMapping::Kind::kProbe; }
  absl::StatusOr<FiveTuple> TupleOf(const FlowEnds& flow) const;  // with source port 0
  // Ports with probe results, ascending, each with its path if the result determines it.
  using ProbedPorts = std::vector<std::pair<uint16_t, std::optional<PathIndex>>>;
  absl::StatusOr<const ProbedPorts*> Probed(const FlowEnds& flow);

 private:
  // Candidate ports with the same path.
  struct Run {
    SourcePortRange ports;
    std::optional<PathIndex> path;
  };
  // Runs between two switches, ascending. Rules depend on the port only.
  using Runs = std::vector<Run>;

  bool ByRules() const { return topology_.source_ports().kind == SourcePortMapping::Kind::kRules; }
  const Runs& RunsOf(const FlowEnds& flow);
  bool LeadsOver(const FlowEnds& flow, const FiveTuple& tuple, std::span<const ArcId> way);
  const ProbedPorts& FindProbedPorts(const FlowEnds& flow, const FiveTuple& tuple);
  // Mapping `probe`, and at most one path.
  bool HasSinglePath(const FlowEnds& flow);
  std::optional<PathIndex> FollowProbes(const FlowEnds& flow, const FiveTuple& tuple);
  std::optional<size_t> Choose(const FiveTuple& tuple, SwitchId at,
                               std::span<const Topology::Neighbour> hops) const;
  std::optional<PathIndex> Follow(const FlowEnds& flow, const FiveTuple& tuple);
  // Computes the choice of each switch in turn.
  std::optional<PathIndex> FollowSwitches(const FlowEnds& flow, const FiveTuple& tuple);

  const Topology& topology_;
  EcmpPaths& paths_;
  const std::vector<std::optional<uint32_t>> addresses_;  // by NIC
  std::vector<SourcePortRange> unbroken_;                 // ranges in which no rule starts or ends
  absl::flat_hash_map<std::pair<SwitchId, SwitchId>, std::unique_ptr<Runs>> runs_;
  const std::shared_ptr<const ProbedPaths> probed_;  // not null
  const SwitchAddresses switch_addresses_;
  std::map<FiveTuple, ProbedPorts> probed_ports_;  // filled on first use
};

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_SOURCE_PORT_MAP_H_
