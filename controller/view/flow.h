// The rings of a communicator: their lanes as flows between NICs, the paths of these over the
// links, and both as text for operators. Pure.
#ifndef MCCS_CONTROLLER_VIEW_FLOW_H_
#define MCCS_CONTROLLER_VIEW_FLOW_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"
#include "topology/ecmp_paths.h"
#include "topology/source_port_map.h"

namespace mccs {

struct Flow {
  int channel = 0;
  int place = 0;  // index in the ring: from the host there to the next one
  int from = 0;   // positions in the communicator's hosts
  int to = 0;
  NicId from_nic, to_nic;
  uint16_t destination_port = 0;
  uint16_t source_port = 0;  // 0: the system's choice

  FlowEnds Ends() const {
    return {.from = from_nic, .to = to_nic, .destination_port = destination_port};
  }
};

// By position in communicator.hosts; null where no Topology has the host.
std::vector<const FabricHost*> HostsOf(const Fabrics& fabrics,
                                       const CommunicatorView& communicator);

// The Topology that has all of `hosts`. kNotFound: none; the message names a host.
absl::StatusOr<Fabric*> CommonFabric(const CommunicatorView& communicator,
                                     std::span<const FabricHost* const> hosts);

// The flows of all rings of `strategy`, by channel; none for a single host. Lanes of other
// algorithms are not included. kNotFound: as CommonFabric, or a host's NIC is not known.
absl::StatusOr<std::vector<Flow>> FlowsOf(const CommunicatorView& communicator,
                                          const strategy::Strategy& strategy,
                                          std::span<const FabricHost* const> hosts);

// The path of a flow: the only one, or the known path of its source port.
std::optional<Path> PathOf(Fabric& fabric, const Flow& flow);

// One lane, as reported by its two ends.
struct LaneEnds {
  std::string from, to;       // names of hosts
  std::string local, remote;  // "address:port"
};

// Names of the links on the lane's path. Nothing: no Topology describes both hosts correctly, or
// the path is not known: the lane is not connected, its addresses are not in the Topology, or its
// source port has no mapping and no probe result.
std::optional<std::vector<std::string>> LinksOfLane(const Fabrics& fabrics, const LaneEnds& lane);

// Index in the ring from which it leads directly from one host to the other, by position; −1: none.
int PlaceInRing(const strategy::ChannelStrategy& channel, int from, int to);
// Source port of the ring's lane between two hosts, by position; 0: none, or no such lane.
uint16_t PortOfLane(const strategy::ChannelStrategy& channel, int from, int to);
// Address of this host for the channel's lanes; empty: the daemon's default.
const std::string& AddressOfHost(const strategy::ChannelStrategy& channel, int host);

// Name of the host at this position; "host 7" if there is none.
std::string HostName(const CommunicatorView& communicator, int position);

// "h0 → h1 → h0": ends with the first host.
std::string RingText(const CommunicatorView& communicator,
                     const strategy::ChannelStrategy& channel);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_VIEW_FLOW_H_
