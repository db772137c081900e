// Evaluates and checks the operator's rules for source ports.
#ifndef MCCS_TOPOLOGY_PORT_RULES_H_
#define MCCS_TOPOLOGY_PORT_RULES_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/source_port_mapping.h"
#include "topology/topology.h"

namespace mccs {

// Index of the next hop at the switch `at` for a packet with this source port: from the first rule
// that contains the port and names one of `next_hops`. Nothing: no rule applies, and the switch's
// choice is not known. A single next hop needs no rule.
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

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_PORT_RULES_H_
