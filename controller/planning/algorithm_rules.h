// Puts the operator's algorithm rules (Policies `algorithm`) into strategies. Pure.
#ifndef MCCS_CONTROLLER_PLANNING_ALGORITHM_RULES_H_
#define MCCS_CONTROLLER_PLANNING_ALGORITHM_RULES_H_

#include <vector>

#include "controller/objects/object_set.h"
#include "controller/view/cluster_view.h"

namespace mccs {

// The Policies `algorithm` that apply to a communicator: first those that select it, then those
// that select its tenant, then those without a selector; each group by name.
std::vector<const Object*> AlgorithmPolicies(const ObjectSet& objects,
                                             const CommunicatorView& communicator);

// Puts the rules of `policies` before the rules from the daemons' own configuration, and removes
// rules of other Policies. If a strategy cannot hold all rules, the daemons' last ones are dropped.
void PutRules(const std::vector<const Object*>& policies, strategy::Strategy* strategy);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PLANNING_ALGORITHM_RULES_H_
