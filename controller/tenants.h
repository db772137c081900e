// What daemons are told of the Tenants: who they are, and the quotas that daemons hold them to.
// Pure.
#ifndef MCCS_CONTROLLER_TENANTS_H_
#define MCCS_CONTROLLER_TENANTS_H_

#include "controller/objects/object_set.h"
#include "proto/agent.pb.h"

namespace mccs {

// In the order of their names: the same for what means the same.
agent::Tenants TenantsOf(const ObjectSet& objects);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_TENANTS_H_
