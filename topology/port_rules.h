// What the operator's rules for source ports mean at one switch, and whether they make sense.
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

// Which of the equal next hops at the switch `at` a packet with this source port takes: that of the
// first rule that holds the port and names one of them. Nothing: no rule does, and the switch
// decides as it likes. With one next hop there is nothing to decide.
std::optional<size_t> ChooseByRules(std::span<const PortRule> rules, SwitchId at,
                                    std::span<const Topology::Neighbour> next_hops,
                                    uint16_t source_port);

struct RuleProblem {
  size_t rule;  // by its place in the list
  std::string why;
};

// A rule that names two equal next hops of one switch, two rules with a port in common that name
// different ones, a rule that names no equal next hop at all. At most one problem per rule.
std::vector<RuleProblem> FindRuleProblems(const Topology& topology,
                                          std::span<const PortRule> rules);

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_PORT_RULES_H_
