// Policy: rings in locality order, so that each rack is entered and left once (source: "MCCS",
// SIGCOMM 2024, policy 1). Every lane gets its own source port, so that the fabric can distinguish
// the flows.
//
// Pure: the same view gives the same strategy.
#ifndef MCCS_CONTROLLER_POLICY_LOCALITY_RING_H_
#define MCCS_CONTROLLER_POLICY_LOCALITY_RING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/policy/ring_ports.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"

namespace mccs {

struct LocalityRingOptions {
  RingPortOptions ports = {};
  // Hosts that every ring takes first, in this order; the others follow in locality order.
  std::vector<std::string> order = {};
  int channels_per_nic = 1;
};

// The strategy for `subject`, of `view`, with the epoch one higher:
// - lane shape and skew: unchanged;
// - rings: in locality order, after options.order;
// - NICs: from controller/view/channel_nics.h;
// - source ports: from controller/policy/ring_ports.h.
// A host that is not in `view` has no pod and no rack. `fabrics` are the view's. `taken` holds the
// ports of all other communicators; this call adds those of `subject`. Errors as in AssignPorts.
absl::StatusOr<strategy::Strategy> LocalityRing(const ClusterView& view, const Fabrics& fabrics,
                                                const CommunicatorView& subject,
                                                const LocalityRingOptions& options,
                                                SourcePorts* taken);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_LOCALITY_RING_H_
