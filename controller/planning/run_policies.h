// Runs the Policies: computes the strategy of each communicator of a view. Pure.
#ifndef MCCS_CONTROLLER_PLANNING_RUN_POLICIES_H_
#define MCCS_CONTROLLER_PLANNING_RUN_POLICIES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "controller/objects/object_set.h"
#include "controller/view/cluster_view.h"

namespace mccs {

// The Policy for a communicator's rings. Null: none; then locality_ring with default parameters.
const Object* SelectPolicy(const ObjectSet& objects, const CommunicatorView& communicator);
// Likewise, for communicators of a Tenant that no Policy selects.
const Object* SelectPolicyForTenant(const ObjectSet& objects, const Object& tenant);

// Whether SelectPolicy places the communicator's flows on paths.
bool PlacesFlowsOf(const ObjectSet& objects, const CommunicatorView& communicator);

// Adds to a strategy for `communicator` its costs and what Policies define besides rings, paths and
// ports.
void PutAlgorithms(const ObjectSet& objects, const CommunicatorView& communicator,
                   strategy::Strategy* strategy);

// In the order of view.communicators, each with its epoch one higher. If flows cannot be placed,
// ports are those of locality_ring, and the strategy's origin says why. REQUIRES: `view` is
// resolved (controller/state/resolved_view.h). Errors as in LocalityRing.
std::vector<absl::StatusOr<strategy::Strategy>> RunPolicies(const ObjectSet& objects,
                                                            const ClusterView& view);

// The strategy of one communicator; the others keep theirs. kNotFound: unknown id.
absl::StatusOr<strategy::Strategy> RunPolicyFor(CommId id, const ObjectSet& objects,
                                                const ClusterView& view);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PLANNING_RUN_POLICIES_H_
