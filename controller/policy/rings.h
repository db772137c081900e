// Shared by policies that order rings: the order of hosts, the frame of a strategy, and source
// ports of lanes that no policy places on paths. Pure, except for the ports taken.
#ifndef MCCS_CONTROLLER_POLICY_RINGS_H_
#define MCCS_CONTROLLER_POLICY_RINGS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"
#include "controller/view/source_ports.h"

namespace mccs {

// Locality order (topology/position.h), after the hosts in `first`, which keep their order: each
// rack is entered and left once. A host that is not in `view` has no pod and no rack.
std::vector<HostIndex> LocalityRingOrder(const ClusterView& view,
                                         const CommunicatorView& communicator,
                                         const std::vector<std::string>& first = {});

// By the lowest rank on each host, as a library without knowledge of the topology orders them;
// unchanged if the ranks are not known.
std::vector<HostIndex> RankRingOrder(const CommunicatorView& communicator);

// The common part of all policies' strategies: the current one with new rings and NICs. Lane shape,
// skew and algorithms unchanged; epoch one higher; every channel's ring is `ring`; NICs from
// controller/view/channel_nics.h; no source ports. A channel names no NICs if they are the daemons'
// default. `hosts` is by position in communicator.hosts; null: no Topology has the host.
strategy::Strategy MakeFrame(const CommunicatorView& communicator,
                             const std::vector<HostIndex>& ring,
                             std::span<const FabricHost* const> hosts, const std::string& origin,
                             int channels_per_nic = 1);

// Whether they differ only in epoch and origin. Source ports that are all 0 equal none.
bool IsSameStrategy(const strategy::Strategy& a, const strategy::Strategy& b);
// Whether `strategy` is `frame` with source ports, except for epoch and origin.
bool HasFrame(const strategy::Strategy& strategy, const strategy::Strategy& frame);

struct RingPortOptions {
  SourcePortRange ports = kDefaultSourcePorts;
  // Draw each port from the whole range, independent of other lanes. The same seed draws the same
  // ports for the same hosts, GPUs and channels.
  std::optional<uint64_t> seed = {};
};

// Chooses and takes a port for each lane of `frame`, the new strategy of `communicator`, by channel
// and around its ring.
//
// Without a seed, the first of these sets that has ports is used:
// 1. ports that no lane has, if at least 1/64 of the range is free. Supports hosts that share one
//    address, as in a lab on one machine;
// 2. ports that no lane from the same host has;
// 3. ports that no lane between the same two hosts has. Flows then stay distinct. Drawn ports are
//    in this set, too.
// An unchanged lane keeps its port if that is in the first set. Other ports: the next free one from
// a hash of (communicator, channel, lane).
// kResourceExhausted: more lanes between two hosts than ports; `taken` is unchanged.
absl::StatusOr<std::vector<SourcePorts::Port>> ChooseRingPorts(const CommunicatorView& communicator,
                                                               const strategy::Strategy& frame,
                                                               const RingPortOptions& options,
                                                               SourcePorts* taken);

// `frame` with the chosen ports.
strategy::Strategy WithRingPorts(strategy::Strategy frame,
                                 std::span<const SourcePorts::Port> ports);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_RINGS_H_
