// Builds the Tenants message for daemons: how processes map to Tenants, and their quotas. Pure.
#ifndef MCCS_CONTROLLER_COORDINATOR_TENANTS_H_
#define MCCS_CONTROLLER_COORDINATOR_TENANTS_H_

#include "controller/objects/object_set.h"
#include "proto/agent.pb.h"

namespace mccs {

// Sorted by name; equal for objects with equal meaning.
agent::v1::Tenants TenantsOf(const ObjectSet& objects);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_TENANTS_H_
