#include "topology/source_port_map.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "topology/ecmp_paths.h"
#include "topology/linux_multipath_hash.h"

namespace mccs {
namespace {

bool Names(const PortRule& rule, SwitchId at, const Topology::Neighbour& hop) {
  return (rule.at.empty() || rule.at[at.value()]) && rule.via[hop.arc.value()];
}

// Checks each choice of each switch.
class RuleChecker {
 public:
  RuleChecker(const Topology& topology, std::span<const PortRule> rules)
      : topology_(topology), rules_(rules), applies_(rules.size()) {}

  void CheckSwitch(SwitchId at, std::span<const Topology::Neighbour> next_hops) {
    std::vector<std::pair<size_t, ArcId>> chosen;  // by earlier rules
    for (size_t r = 0; r < rules_.size(); ++r) {
      std::vector<ArcId> named;
      for (const auto& hop : next_hops) {
        if (Names(rules_[r], at, hop)) named.push_back(hop.arc);
      }
      if (named.empty()) continue;
      applies_[r] = true;
      if (named.size() > 1) {
        Add(r, absl::StrCat("does not determine which of ", topology_.ArcName(named[0]), " and ",
                            topology_.ArcName(named[1]),
                            " flows take; name one of these equal next hops, or restrict the rule "
                            "to switches with `at`"));
        continue;
      }
      for (const auto& [earlier, arc] : chosen) {
        if (arc == named[0] || !rules_[earlier].ports.Overlaps(rules_[r].ports)) continue;
        Add(r, absl::StrCat("routes ports to ", topology_.ArcName(named[0]), " that rule ",
                            earlier + 1, " routes to ", topology_.ArcName(arc),
                            "; remove the common ports from one of the rules"));
      }
      chosen.emplace_back(r, named[0]);
    }
  }

  std::vector<RuleProblem> Result() {
    for (size_t r = 0; r < rules_.size(); ++r) {
      if (!applies_[r]) {
        Add(r,
            "has no effect: it names no switch or link among several equal next hops; correct or "
            "remove it");
      }
    }
    std::vector<RuleProblem> problems;
    for (auto& [rule, why] : problems_) problems.push_back({rule, std::move(why)});
    return problems;
  }

 private:
  void Add(size_t rule, const std::string& why) { problems_.try_emplace(rule, why); }

  const Topology& topology_;
  std::span<const PortRule> rules_;
  std::vector<bool> applies_;
  std::map<size_t, std::string> problems_;
};

}  // namespace

std::optional<size_t> ChooseByRules(std::span<const PortRule> rules, SwitchId at,
                                    std::span<const Topology::Neighbour> next_hops,
                                    uint16_t source_port) {
  for (const PortRule& rule : rules) {
    if (!rule.ports.Contains(source_port)) continue;
    for (size_t i = 0; i < next_hops.size(); ++i) {
      if (Names(rule, at, next_hops[i])) return i;
    }
  }
  return std::nullopt;
}

std::vector<RuleProblem> FindRuleProblems(const Topology& topology,
                                          std::span<const PortRule> rules) {
  RuleChecker examination(topology, rules);
  EcmpPaths paths(topology);
  std::set<SwitchId> leaves;
  for (const auto& nic : topology.nics()) leaves.insert(nic.attached_to);
  for (size_t i = 0; i < topology.switches().size(); ++i) {
    const SwitchId at(static_cast<int32_t>(i));
    std::set<std::vector<ArcId>> seen;  // most destinations have the same choice
    for (const SwitchId toward : leaves) {
      const auto hops = paths.NextHops(at, toward);
      std::vector<ArcId> arcs;
      for (const auto& hop : hops) arcs.push_back(hop.arc);
      if (arcs.size() > 1 && seen.insert(arcs).second) examination.CheckSwitch(at, hops);
    }
  }
  return examination.Result();
}

namespace {

std::vector<std::optional<uint32_t>> Addresses(const Topology& topology) {
  std::vector<std::optional<uint32_t>> addresses;
  for (const Topology::Nic& nic : topology.nics()) addresses.push_back(ParseIpv4(nic.address));
  return addresses;
}

// The candidates, split where a rule starts or ends.
std::vector<SourcePortRange> CutByRules(const SourcePortMapping& mapping) {
  std::set<uint32_t> begins = {mapping.candidates.first};
  for (const PortRule& rule : mapping.rules) {
    for (const uint32_t begin : {uint32_t{rule.ports.first}, rule.ports.last + 1u}) {
      if (begin <= mapping.candidates.last && begin > mapping.candidates.first)
        begins.insert(begin);
    }
  }
  std::vector<SourcePortRange> pieces;
  for (auto it = begins.begin(); it != begins.end(); ++it) {
    const auto next = std::next(it);
    const uint32_t last = next != begins.end() ? *next - 1 : mapping.candidates.last;
    pieces.push_back({static_cast<uint16_t>(*it), static_cast<uint16_t>(last)});
  }
  return pieces;
}

size_t SizeOf(const SourcePortRange& range) {
  return range.first > range.last ? 0 : range.last - range.first + 1u;
}

}  // namespace

SourcePortMap::SourcePortMap(const Topology& topology, EcmpPaths& paths,
                             std::shared_ptr<const ProbedPaths> probed)
    : topology_(topology),
      paths_(paths),
      addresses_(Addresses(topology)),
      probed_(probed != nullptr ? std::move(probed) : std::make_shared<const ProbedPaths>()),
      switch_addresses_(topology) {
  if (ByRules()) unbroken_ = CutByRules(topology.source_ports());
}

absl::StatusOr<std::optional<PathIndex>> SourcePortMap::PathOf(const FlowEnds& flow,
                                                               uint16_t source_port) {
  if (HasSinglePath(flow)) return PathIndex(0);
  MCCS_ASSIGN_OR_RETURN(FiveTuple tuple, TupleOf(flow));
  tuple.source_port = source_port;
  return Follow(flow, tuple);
}

absl::Status SourcePortMap::CheckKnown(const FlowEnds& flow) {
  return HasSinglePath(flow) ? absl::OkStatus() : TupleOf(flow).status();
}

absl::StatusOr<std::optional<uint16_t>> SourcePortMap::FindPort(
    const FlowEnds& flow, PathIndex path, SourcePortRange limits, uint64_t start,
    absl::FunctionRef<bool(uint16_t)> is_free) {
  const bool one_way = HasSinglePath(flow);
  FiveTuple tuple;
  if (!one_way) {
    MCCS_ASSIGN_OR_RETURN(tuple, TupleOf(flow));
  }
  // Ranges to search: for rules only those that lead there.
  absl::InlinedVector<SourcePortRange, 4> pieces;
  size_t count = 0;
  const auto add = [&](const SourcePortRange& range) {
    const SourcePortRange piece = range.Common(limits);
    if (SizeOf(piece) == 0) return;
    pieces.push_back(piece);
    count += SizeOf(piece);
  };
  if (ByRules()) {
    for (const Run& run : RunsOf(flow)) {
      if (run.path == path) add(run.ports);
    }
  } else if (ByProbe() && !one_way) {
    for (const auto& [port, leads_over] : FindProbedPorts(flow, tuple)) {
      if (leads_over == path) add({port, port});
    }
  } else {
    add(topology_.source_ports().candidates);
  }
  if (count == 0) return std::nullopt;
  const std::span<const ArcId> way = paths_.Between(flow.from, flow.to).Fabric(path);
  size_t piece = 0, place = start % count;
  for (; place >= SizeOf(pieces[piece]); ++piece) place -= SizeOf(pieces[piece]);
  for (size_t i = 0; i < count; ++i) {
    tuple.source_port = static_cast<uint16_t>(pieces[piece].first + place);
    if (is_free(tuple.source_port) && (ByRules() || ByProbe() || LeadsOver(flow, tuple, way)))
      return tuple.source_port;
    if (++place < SizeOf(pieces[piece])) continue;
    place = 0;
    if (++piece == pieces.size()) piece = 0;
  }
  return std::nullopt;
}

const SourcePortMap::Runs& SourcePortMap::RunsOf(const FlowEnds& flow) {
  const std::pair ends(topology_.nic(flow.from).attached_to, topology_.nic(flow.to).attached_to);
  std::unique_ptr<Runs>& runs = runs_[ends];
  if (runs == nullptr) {
    runs = std::make_unique<Runs>();
    FiveTuple tuple;
    for (const SourcePortRange& ports : unbroken_) {
      tuple.source_port = ports.first;
      runs->push_back({ports, FollowSwitches(flow, tuple)});
    }
  }
  return *runs;
}

absl::StatusOr<FiveTuple> SourcePortMap::TupleOf(const FlowEnds& flow) const {
  FiveTuple tuple = {.protocol = flow.protocol, .destination_port = flow.destination_port};
  switch (topology_.source_ports().kind) {
    case SourcePortMapping::Kind::kRules:
      return tuple;
    case SourcePortMapping::Kind::kProbe:
      if (!switch_addresses_.empty()) break;
      return absl::FailedPreconditionError(
          "cannot map source ports to paths by probing: no switch has an IPv4 address in the "
          "topology; set the switches' `addresses`");
    case SourcePortMapping::Kind::kHash:
      break;
  }
  for (const auto& [nic, address] : {std::pair(flow.from, &tuple.source_address),
                                     std::pair(flow.to, &tuple.destination_address)}) {
    const std::optional<uint32_t>& number = addresses_[nic.value()];
    if (!number) {
      return absl::FailedPreconditionError(absl::StrCat(
          "cannot map source ports to paths by ", ByProbe() ? "probing" : "hash", ": NIC ",
          topology_.NicName(nic), " has no IPv4 address in the topology; set its `address`"));
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
  if (ByProbe()) return FollowProbes(flow, tuple);
  if (!ByRules()) return FollowSwitches(flow, tuple);
  const SourcePortRange& candidates = topology_.source_ports().candidates;
  if (!candidates.Contains(tuple.source_port)) return FollowSwitches(flow, tuple);
  const Runs& runs = RunsOf(flow);
  const auto after =
      std::upper_bound(runs.begin(), runs.end(), tuple.source_port,
                       [](uint16_t port, const Run& run) { return port < run.ports.first; });
  return std::prev(after)->path;
}

absl::StatusOr<const SourcePortMap::ProbedPorts*> SourcePortMap::Probed(const FlowEnds& flow) {
  MCCS_ASSIGN_OR_RETURN(const FiveTuple tuple, TupleOf(flow));
  return &FindProbedPorts(flow, tuple);
}

const SourcePortMap::ProbedPorts& SourcePortMap::FindProbedPorts(const FlowEnds& flow,
                                                                 const FiveTuple& tuple) {
  FiveTuple key = tuple;
  key.source_port = 0;
  const auto [entry, is_new] = probed_ports_.try_emplace(key);
  if (is_new) {
    const PathSet paths = paths_.Between(flow.from, flow.to);
    for (const auto& [port, hops] : probed_->PortsOf(key)) {
      entry->second.emplace_back(port,
                                 PathOfHops(topology_, switch_addresses_, paths, flow.from, hops));
    }
  }
  return entry->second;
}

bool SourcePortMap::HasSinglePath(const FlowEnds& flow) {
  return ByProbe() && paths_.Between(flow.from, flow.to).size() == 1;
}

std::optional<PathIndex> SourcePortMap::FollowProbes(const FlowEnds& flow, const FiveTuple& tuple) {
  if (HasSinglePath(flow)) return PathIndex(0);
  const ProbedPorts& ports = FindProbedPorts(flow, tuple);
  const auto known =
      std::lower_bound(ports.begin(), ports.end(), tuple.source_port,
                       [](const auto& entry, uint16_t port) { return entry.first < port; });
  if (known == ports.end() || known->first != tuple.source_port) return std::nullopt;
  return known->second;
}

bool SourcePortMap::LeadsOver(const FlowEnds& flow, const FiveTuple& tuple,
                              std::span<const ArcId> way) {
  SwitchId at = topology_.nic(flow.from).attached_to;
  const SwitchId toward = topology_.nic(flow.to).attached_to;
  for (const ArcId arc : way) {
    const auto hops = paths_.NextHops(at, toward);
    const std::optional<size_t> choice = hops.empty() ? std::nullopt : Choose(tuple, at, hops);
    if (!choice || hops[*choice].arc != arc) return false;
    at = hops[*choice].to;
  }
  return at == toward;
}

std::optional<PathIndex> SourcePortMap::FollowSwitches(const FlowEnds& flow,
                                                       const FiveTuple& tuple) {
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
