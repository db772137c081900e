// Whether the controller and the daemons enforce each object. Reports whatever is stored but has no
// effect. Pure.
#ifndef MCCS_CONTROLLER_API_ENFORCEMENT_STATUS_H_
#define MCCS_CONTROLLER_API_ENFORCEMENT_STATUS_H_

#include <string>

#include "controller/objects/object.h"

namespace mccs {

// "True" or "Partial".
std::string EnforcementStatus(const ObjectSet& set, const Object& object);
// The part of the object that has no effect, and the remedy, in one sentence; empty: all is
// enforced. For a Tenant, considers the Policies for tenants only; `explain` covers communicators
// that a Policy names.
std::string UnenforcedReason(const ObjectSet& set, const Object& object);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_API_ENFORCEMENT_STATUS_H_
