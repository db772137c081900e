// Computes how fast communicators may send under the operators' objects, and whether guarantees can
// be held. Pure.
#ifndef MCCS_CONTROLLER_RATES_RATE_LIMITS_H_
#define MCCS_CONTROLLER_RATES_RATE_LIMITS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/objects/object.h"
#include "controller/policy/shares.h"
#include "controller/policy/time_windows.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"

namespace mccs {

struct DecidedRateLimits {
  std::vector<agent::v1::RateLimits> limits;  // by communicator; see PlanRateLimits
  // Guarantees that links cannot hold and that were lowered in proportion, as text
  // (Describe(UnmetGuarantee)).
  std::vector<std::string> broken = {};
};

// Uses the strategies in the view. REQUIRES: `resolved` is a resolved view
// (controller/state/resolved_view.h), and `fabrics` are made from its Topologies.
DecidedRateLimits DecideRateLimits(const ObjectSet& objects, const ClusterView& resolved,
                                   const Fabrics& fabrics);

// Communicators with Policy time_windows, and the communicators that each waits for. Likewise.
std::vector<WaitRule> DecideWaitRules(const ObjectSet& objects, const ClusterView& resolved,
                                      const Fabrics& fabrics);

// Why no NIC in any Topology can carry the Tenant's guarantee, which holds per NIC of a host: names
// the fastest link and the numbers. Empty: some NIC can, or there is no Topology.
std::string ExplainNicLimit(const ObjectSet& set, const Object& tenant);

// kFailedPrecondition: the change raises a guarantee above what any NIC can carry; with tenant,
// place, link and numbers. A change of a Topology is not rejected for this: the guarantee is shown
// as not fully enforced (controller/api/enforcement_status.h).
absl::Status CheckGuaranteesAgainstNics(const ObjectSet& before, const ObjectSet& after);

// Whether the communicators of `view`, with the strategies that they will get, have the guarantees
// in `after`. Considers only guarantees that the change raises, so that one that is broken already
// does not reject other changes. kFailedPrecondition: no; with tenant, place, link and numbers.
absl::Status CheckGuarantees(const ObjectSet& before, const ObjectSet& after,
                             const ClusterView& view);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_RATES_RATE_LIMITS_H_
