// What no NIC that operators describe can carry of what they promise, whatever runs. Pure.
#ifndef MCCS_CONTROLLER_GUARANTEE_LIMITS_H_
#define MCCS_CONTROLLER_GUARANTEE_LIMITS_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "controller/objects/object_set.h"

namespace mccs {

// Names of the Tenants that are guaranteed more than before.
std::set<std::string> RaisedGuarantees(const ObjectSet& before, const ObjectSet& after);

// Why a Tenant's guarantee, which is for each NIC of a host, can be kept on none of those that the
// Topologies have: the fastest link of all, with its numbers. Empty: it can, or there is no
// Topology.
std::string WhyNoNicCarries(const ObjectSet& set, const Object& tenant);

// kFailedPrecondition: the change raises a guarantee above what any NIC can carry; with the tenant
// and its place, the link and the numbers. A Topology that makes one so keeps nobody from applying
// it: what is promised is more than is there, and shown as that (controller/in_force.h).
absl::Status CheckGuaranteesAgainstNics(const ObjectSet& before, const ObjectSet& after);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_GUARANTEE_LIMITS_H_
