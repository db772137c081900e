// The Policies in force at work: what each communicator of a view should run. Pure.
#ifndef MCCS_CONTROLLER_RUN_POLICIES_H_
#define MCCS_CONTROLLER_RUN_POLICIES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"

namespace mccs {

// The Policy that decides on a communicator's rings. Null: none, and so locality_ring as it is.
const Object* PolicyInForce(const ObjectSet& objects, const CommunicatorView& communicator);
// Likewise, on those of a Tenant that no Policy names.
const Object* PolicyForTenant(const ObjectSet& objects, const Object& tenant);

// Whether that one places the communicator's flows on paths.
bool PlacesFlowsOf(const ObjectSet& objects, const CommunicatorView& communicator);

// Puts into a strategy for `communicator` what Policies say besides rings, paths and ports, and the
// costs that it is to go by.
void PutAlgorithms(const ObjectSet& objects, const CommunicatorView& communicator,
                   strategy::Strategy* strategy);

// By the order of view.communicators, each with its epoch one higher than now. Where flows cannot
// be placed a communicator's ports are those of locality_ring, and the strategy's origin says why.
// `view` is complete (controller/complete_view.h). Errors as LocalityRing's.
std::vector<absl::StatusOr<strategy::Strategy>> RunPolicies(const ObjectSet& objects,
                                                            const ClusterView& view);

// The strategy of one of them, whatever the others should run: they run what they run.
// kNotFound: it is none of them.
absl::StatusOr<strategy::Strategy> RunPolicyOf(CommId id, const ObjectSet& objects,
                                               const ClusterView& view);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_RUN_POLICIES_H_
