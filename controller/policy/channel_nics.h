// Which NIC of each host a channel uses.
#ifndef MCCS_CONTROLLER_POLICY_CHANNEL_NICS_H_
#define MCCS_CONTROLLER_POLICY_CHANNEL_NICS_H_

#include <span>
#include <vector>

#include "controller/cluster_view.h"
#include "controller/policy/fabric.h"

namespace mccs {

// The same limit as the daemons have.
inline constexpr int kMaxChannelsOfStrategy = 32;

// By channel, then by position of the host in `communicator.hosts`.
using ChannelNics = std::vector<std::vector<LaneNic>>;

// On each host the NICs that are near the communicator's GPUs there, in the order of the GPUs, each
// once (all of the host, if its GPUs are not known or none of them is near a NIC): channel c takes
// the c-th of them, counted around. There are `per_nic` channels for each such NIC of the host with
// most of them, whatever the communicator has now: jobs that share a NIC have as many flows there,
// one as the other, and so as good a chance.
// Links lead from each NIC of a channel to each other. Where a Topology is of several fabrics that
// no link joins (one for each rail), a channel keeps to one in which all hosts have a NIC: that of
// a near NIC of the host with most near NICs in such fabrics. The others take near NICs there, and
// any if they have none.
// Empty: there is a host of which no NIC is known, no fabric has a NIC of each host, or the
// addresses of a channel are of two families. Then lanes use what the daemons use without being
// told.
// `hosts` is by the same positions; null where no Topology has the host.
ChannelNics ChooseNics(const CommunicatorView& communicator,
                       std::span<const FabricHost* const> hosts, int per_nic = 1);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_CHANNEL_NICS_H_
