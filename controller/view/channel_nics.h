// Chooses the NIC of each host for each channel.
#ifndef MCCS_CONTROLLER_VIEW_CHANNEL_NICS_H_
#define MCCS_CONTROLLER_VIEW_CHANNEL_NICS_H_

#include <span>
#include <vector>

#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"

namespace mccs {

// Equals the daemons' limit.
inline constexpr int kMaxChannelsOfStrategy = 32;

// By channel, then by position of the host in `communicator.hosts`.
using ChannelNics = std::vector<std::vector<LaneNic>>;

// Candidates on each host: the NICs near the communicator's GPUs there, in the order of the GPUs,
// each once. If the GPUs are not known or are near no NIC: all NICs of the host. Channel c takes
// candidate c, modulo their number. There are `per_nic` channels per candidate of the host with
// most candidates, independent of the current strategy. Jobs that share a NIC therefore have
// equally many flows there.
// All NICs of a channel can reach each other. If a Topology has several separate fabrics (one per
// rail), each channel uses a fabric in which every host has a NIC. The host with the most
// candidates in such fabrics selects it, by its candidate for that channel. Other hosts use a
// candidate in that fabric or, without one, any NIC in it.
// Empty: a host without a known NIC, no fabric with a NIC of each host, or a channel with addresses
// of two families. Lanes then use the daemons' default.
// `hosts`: by position in `communicator.hosts`; null: no Topology has the host.
ChannelNics ChooseNics(const CommunicatorView& communicator,
                       std::span<const FabricHost* const> hosts, int per_nic = 1);

// The home rank of each host on each channel: by channel, then by position in `communicator.hosts`,
// the position of the rank among those of the host. Its GPU is near the channel's NIC; channels on
// one NIC take turns of such ranks. Without one, the channels take turns of all ranks. A channel's
// list is empty if the turns of all ranks, the daemons' default, give the same.
// REQUIRES: `nics` are of these hosts.
std::vector<std::vector<int>> ChooseHomes(const CommunicatorView& communicator,
                                          std::span<const FabricHost* const> hosts,
                                          const ChannelNics& nics);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_VIEW_CHANNEL_NICS_H_
