// Chooses source ports of a ring's lanes if no policy places them on paths.
#ifndef MCCS_CONTROLLER_POLICY_RING_PORTS_H_
#define MCCS_CONTROLLER_POLICY_RING_PORTS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "controller/view/cluster_view.h"
#include "controller/view/source_ports.h"

namespace mccs {

struct RingPortOptions {
  PortRange ports;
  // Draw each port from the whole range, independent of other lanes. The same seed draws the same
  // ports for the same hosts, GPUs and channels.
  std::optional<uint64_t> seed = {};
};

// Gives each lane of `frame`, the new strategy of `communicator`, a port and marks it as taken.
//
// Without a seed, the first of these sets that has ports is used:
// 1. ports that no lane has, if at least 1/64 of the range is free. Supports hosts that share one
//    address, as in a lab on one machine;
// 2. ports that no lane from the same host has;
// 3. ports that no lane between the same two hosts has. Flows then stay distinct. Drawn ports are
// in this set, too. An unchanged lane keeps its port if that is in the first set. Other ports: the
// next free one from a hash of (communicator, channel, lane).
// kResourceExhausted: more lanes between two hosts than ports; `taken` is unchanged.
absl::Status AssignPorts(const CommunicatorView& communicator, const RingPortOptions& options,
                         SourcePorts* taken, strategy::Strategy* frame);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_RING_PORTS_H_
