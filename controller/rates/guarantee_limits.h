// Checks guarantees against the NICs of Topologies, independent of what runs. Pure.
#ifndef MCCS_CONTROLLER_RATES_GUARANTEE_LIMITS_H_
#define MCCS_CONTROLLER_RATES_GUARANTEE_LIMITS_H_

#include <set>
#include <string>

#include "absl/status/status.h"
#include "controller/objects/object_set.h"

namespace mccs {

// Names of the Tenants whose guarantee is raised or new.
std::set<std::string> RaisedGuarantees(const ObjectSet& before, const ObjectSet& after);

// Why no NIC in any Topology can carry the Tenant's guarantee, which holds per NIC of a host: names
// the fastest link and the numbers. Empty: some NIC can, or there is no Topology.
std::string ExplainNicLimit(const ObjectSet& set, const Object& tenant);

// kFailedPrecondition: the change raises a guarantee above what any NIC can carry; with tenant,
// place, link and numbers. A change of a Topology is not rejected for this: the guarantee is shown
// as not fully enforced (controller/api/enforcement_status.h).
absl::Status CheckGuaranteesAgainstNics(const ObjectSet& before, const ObjectSet& after);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_RATES_GUARANTEE_LIMITS_H_
