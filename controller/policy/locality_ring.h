// Policy: every channel's ring takes the hosts in locality order, so that each rack is entered and
// left once (source: "MCCS", SIGCOMM 2024, policy 1), and every lane gets a source port of its own,
// so that the fabric can tell the flows apart.
//
// Pure: the same view gives the same strategy.
#ifndef MCCS_CONTROLLER_POLICY_LOCALITY_RING_H_
#define MCCS_CONTROLLER_POLICY_LOCALITY_RING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cluster_view.h"

namespace mccs {

// Source ports of lanes, both ends included. Above Linux's default range of ephemeral ports (32768
// to 60999), so that no other program of the host holds one by chance.
struct PortRange {
  uint16_t first = 61000;
  uint16_t last = 65535;
};

struct LocalityRingOptions {
  PortRange ports;
  // Hosts that every ring takes first, in this order; the others follow in locality order.
  std::vector<std::string> order;
};

inline constexpr char kLocalityRingName[] = "locality_ring";

// The strategy for communicator `id` of `view`: channels, lane shape and skew as they are now,
// rings in locality order (but for options.order), epoch one higher. A host that `view` does not
// know counts as one without pod and rack.
//
// Ports follow from (communicator, channel, lane) by a hash, and the next free one is taken where
// that is in use. Free means: no lane of another communicator, and no other of this one, has it, as
// long as the range has such a port; in a cluster with more lanes than ports: none that leaves from
// the same host; and at the very least none between the same two hosts. The last makes the flows
// distinct; the first also serves hosts that share one address, as in a lab on one machine.
// kNotFound: no such communicator. kResourceExhausted: more lanes between two hosts than ports.
absl::StatusOr<strategy::Strategy> LocalityRing(const ClusterView& view, CommId id,
                                                const LocalityRingOptions& options = {});

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_LOCALITY_RING_H_
