// Whether what operators want is acted on, object by object: nothing shall look as if it were done
// that nobody does. Pure.
#ifndef MCCS_CONTROLLER_IN_FORCE_H_
#define MCCS_CONTROLLER_IN_FORCE_H_

#include <string>

#include "controller/objects/object_set.h"

namespace mccs {

// Of an object of `set`: "yes", or "in part".
std::string InForce(const ObjectSet& set, const Object& object);
// What of it is kept and not acted on, and what to do about it, in one sentence; empty: all is. Of
// a Tenant it goes by the Policies that are for tenants: communicators that a Policy names have
// that one, as `explain` says.
std::string NotActedOn(const ObjectSet& set, const Object& object);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_IN_FORCE_H_
