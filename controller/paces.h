// How fast communicators may send under what operators want, and whether what they promise can be
// kept. Pure.
#ifndef MCCS_CONTROLLER_PACES_H_
#define MCCS_CONTROLLER_PACES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"
#include "controller/policy/fabric.h"
#include "controller/policy/shares.h"
#include "controller/policy/time_windows.h"

namespace mccs {

struct DecidedPaces {
  std::vector<PlannedPace> paces;  // by communicator
  // Guarantees that links do not hold and that were lowered, in proportion:
  // Describe(BrokenPromise).
  std::vector<std::string> broken = {};
};

// Of a view that is complete (controller/complete_view.h) and its fabrics, for the strategies that
// its communicators have there.
DecidedPaces DecidePaces(const ObjectSet& objects, const ClusterView& complete,
                         const Fabrics& fabrics);

// Who is to send in windows, and whom it waits for: those whose Policy is time_windows. Likewise.
std::vector<WaitRule> DecideWaits(const ObjectSet& objects, const ClusterView& complete,
                                  const Fabrics& fabrics);

// Whether the communicators of `view`, with the strategies that they will get, have what `after`
// guarantees to their tenants. Only what the change from `before` raises is looked at: a guarantee
// that others' starting has broken meanwhile keeps nobody from changing something else.
// kFailedPrecondition: no; with the tenant and its place, the link and the numbers.
absl::Status CheckGuarantees(const ObjectSet& before, const ObjectSet& after,
                             const ClusterView& view);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PACES_H_
