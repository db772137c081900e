// The Policies that apply to a communicator or to a tenant. Pure.
#ifndef MCCS_CONTROLLER_OBJECTS_POLICY_SELECTION_H_
#define MCCS_CONTROLLER_OBJECTS_POLICY_SELECTION_H_

#include <string>
#include <vector>

#include "controller/objects/object.h"

namespace mccs {

// Those that decide `what` for communicator `id` (FormatCommId) of `tenant`, the most specific
// first: first those that select it, then those that select its tenant, then those without a
// selector; each group by name. `id` empty: a communicator that none selects. `tenant` null: none.
std::vector<const Object*> PoliciesFor(const ObjectSet& objects, PolicyDecision what,
                                       const std::string& id, const Object* tenant);

// The most specific one for the rings, flows and rates; null: none.
const Object* SelectRingPolicy(const ObjectSet& objects, const std::string& id,
                               const Object* tenant);
// Likewise, for communicators of a Tenant that no Policy selects.
const Object* SelectPolicyForTenant(const ObjectSet& objects, const Object& tenant);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_POLICY_SELECTION_H_
