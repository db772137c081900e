// Source ports of a ring's lanes, where no policy places them on paths.
#ifndef MCCS_CONTROLLER_POLICY_RING_PORTS_H_
#define MCCS_CONTROLLER_POLICY_RING_PORTS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "controller/cluster_view.h"
#include "controller/policy/source_ports.h"

namespace mccs {

struct RingPortOptions {
  PortRange ports;
  // Draw each port from the whole range, whatever other lanes have, as a program does that knows
  // of no others. The same seed draws the same ports for the same hosts, GPUs and channels.
  std::optional<uint64_t> seed = {};
};

// Gives each lane of `frame`, the strategy of `communicator` to be, a port, and takes it.
//
// Without a seed: free are the ports that no lane has, as long as one in 64 of the range is such;
// in a cluster with more lanes those that no lane from the same host has; and at the very least
// those that none between the same two hosts has. The last makes the flows distinct, drawn ones
// too; the first also serves hosts that share one address, as in a lab on one machine. A lane that
// stays keeps its port if that is as free as any. Other ports follow from (communicator, channel,
// lane) by a hash, from which the next free one is taken.
// kResourceExhausted: more lanes between two hosts than ports. Then `taken` is as it was.
absl::Status GivePorts(const CommunicatorView& communicator, const RingPortOptions& options,
                       SourcePorts* taken, strategy::Strategy* frame);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_RING_PORTS_H_
