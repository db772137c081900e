#include "topology/port_rules.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "topology/ecmp_paths.h"

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
        Add(r, absl::StrCat("shares ports with rule ", earlier + 1, ": that one routes them to ",
                            topology_.ArcName(arc), ", this one to ", topology_.ArcName(named[0]),
                            "; remove the common ports from one of them"));
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

}  // namespace mccs
