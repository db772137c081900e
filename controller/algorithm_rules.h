// Which algorithm a communicator's calls take because an operator says so. Pure.
#ifndef MCCS_CONTROLLER_ALGORITHM_RULES_H_
#define MCCS_CONTROLLER_ALGORITHM_RULES_H_

#include <vector>

#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"

namespace mccs {

// The Policies `algorithm` that are for a communicator: those that name it, then those that name
// its tenant, then those that name nobody; by name among each.
std::vector<const Object*> AlgorithmPolicies(const ObjectSet& objects,
                                             const CommunicatorView& communicator);

// Puts their rules before those that daemons have from their own configuration, and takes those
// away that other Policies put there before. The daemons' last ones go if a strategy cannot bear
// all.
void PutRules(const std::vector<const Object*>& policies, strategy::Strategy* strategy);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_ALGORITHM_RULES_H_
