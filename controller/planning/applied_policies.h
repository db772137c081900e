// The Policies that apply to a communicator, and the rules that Policies `algorithm` add to its
// strategy.
// Pure.
#ifndef MCCS_CONTROLLER_PLANNING_APPLIED_POLICIES_H_
#define MCCS_CONTROLLER_PLANNING_APPLIED_POLICIES_H_

#include <vector>

#include "controller/objects/object.h"
#include "controller/view/cluster_view.h"

namespace mccs {

// The Policy for a communicator's rings, flows and rates: the one that selects it, else the one
// that selects its tenant, else the one without a selector. Null: none.
const Object* SelectPolicy(const ObjectSet& objects, const CommunicatorView& communicator);
// The specification of the selected Policy; without one, the default values.
const PolicySpec& SpecOf(const Object* policy);

// The Policies `algorithm` that apply to a communicator: first those that select it, then those
// that select its tenant, then those without a selector; each group by name.
std::vector<const Object*> AlgorithmPolicies(const ObjectSet& objects,
                                             const CommunicatorView& communicator);

// Puts the rules of `policies` before the rules from the daemons' own configuration, and removes
// rules of other Policies. If a strategy cannot hold all rules, the daemons' last ones are dropped.
void PutRules(const std::vector<const Object*>& policies, strategy::Strategy* strategy);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PLANNING_APPLIED_POLICIES_H_
