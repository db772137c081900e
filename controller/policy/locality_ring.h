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
#include "controller/policy/source_ports.h"

namespace mccs {

struct LocalityRingOptions {
  PortRange ports;
  // Hosts that every ring takes first, in this order; the others follow in locality order.
  std::vector<std::string> order;
};

inline constexpr char kLocalityRingName[] = "locality_ring";

// The strategy for `subject`, of `view`: channels, lane shape and skew as they are now, rings in
// locality order (but for options.order), epoch one higher. A host that `view` does not know counts
// as one without pod and rack.
//
// Source ports: free are those that no lane has (`taken`: of all other communicators, and then of
// this one too), as long as the range has such a port; in a cluster with more lanes than ports
// those that no lane from the same host has; and at the very least those that none between the same
// two hosts has. The last makes the flows distinct; the first also serves hosts that share one
// address, as in a lab on one machine. A lane that stays keeps its port if that is as free as any.
// Other ports follow from (communicator, channel, lane) by a hash, from which the next free one is
// taken.
// kResourceExhausted: more lanes between two hosts than ports; `taken` is as it was.
absl::StatusOr<strategy::Strategy> LocalityRing(const ClusterView& view,
                                                const CommunicatorView& subject,
                                                const LocalityRingOptions& options,
                                                SourcePorts* taken);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_LOCALITY_RING_H_
