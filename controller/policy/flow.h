// The lanes of a communicator's rings as flows between NICs.
#ifndef MCCS_CONTROLLER_POLICY_FLOW_H_
#define MCCS_CONTROLLER_POLICY_FLOW_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cluster_view.h"
#include "controller/policy/fabric.h"
#include "topology/ecmp_paths.h"
#include "topology/source_port_map.h"

namespace mccs {

struct Flow {
  int channel = 0;
  int place = 0;  // from the host at this place of the ring to the next one
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

// One Topology has all of `hosts`. kNotFound: none does, and the text says for which host.
absl::StatusOr<Fabric*> CommonFabric(const CommunicatorView& communicator,
                                     std::span<const FabricHost* const> hosts);

// The flows of all rings of `strategy`, channel by channel; none for a single host. Lanes of other
// algorithms are not among them. kNotFound: as CommonFabric, or it is not known which NIC a host
// uses.
absl::StatusOr<std::vector<Flow>> FlowsOf(const CommunicatorView& communicator,
                                          const strategy::Strategy& strategy,
                                          std::span<const FabricHost* const> hosts);

// The path of a flow, if there is but one or its source port leads over one that is known.
std::optional<Path> PathOf(Fabric& fabric, const Flow& flow);

// The place of the ring from which it leads from the one host straight to the other, by position;
// −1: it does not.
int PlaceInRing(const strategy::ChannelStrategy& channel, int from, int to);
// The source port of the ring's lane between two hosts, by position; 0: none, or no such lane.
uint16_t PortOfLane(const strategy::ChannelStrategy& channel, int from, int to);
// The address that lanes of this host use; empty: the daemon's own.
const std::string& AddressOfHost(const strategy::ChannelStrategy& channel, int host);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_FLOW_H_
