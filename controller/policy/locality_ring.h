// Policy: every channel's ring takes the hosts in locality order, so that each rack is entered and
// left once (source: "MCCS", SIGCOMM 2024, policy 1), and every lane gets a source port of its own,
// so that the fabric can tell the flows apart.
//
// Pure: the same view gives the same strategy.
#ifndef MCCS_CONTROLLER_POLICY_LOCALITY_RING_H_
#define MCCS_CONTROLLER_POLICY_LOCALITY_RING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cluster_view.h"
#include "controller/policy/fabric.h"
#include "controller/policy/ring_ports.h"

namespace mccs {

struct LocalityRingOptions {
  RingPortOptions ports = {};
  // Hosts that every ring takes first, in this order; the others follow in locality order.
  std::vector<std::string> order = {};
  int channels_per_nic = 1;
};

inline constexpr char kLocalityRingName[] = "locality_ring";

// The strategy for `subject`, of `view`: lane shape and skew as they are now, rings in locality
// order (but for options.order), NICs by controller/policy/channel_nics.h, source ports by
// controller/policy/ring_ports.h, epoch one higher. A host that `view` does not know counts as one
// without pod and rack. `fabrics` are the view's; `taken` has the ports of all other communicators,
// and then those of this one too. Errors as GivePorts.
absl::StatusOr<strategy::Strategy> LocalityRing(const ClusterView& view, const Fabrics& fabrics,
                                                const CommunicatorView& subject,
                                                const LocalityRingOptions& options,
                                                SourcePorts* taken);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_LOCALITY_RING_H_
