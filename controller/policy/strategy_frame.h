// The common part of all policies' strategies: the current one with new rings and NICs.
#ifndef MCCS_CONTROLLER_POLICY_STRATEGY_FRAME_H_
#define MCCS_CONTROLLER_POLICY_STRATEGY_FRAME_H_

#include <span>
#include <string>
#include <vector>

#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"

namespace mccs {

// Lane shape, skew and algorithms unchanged; epoch one higher; every channel's ring is `ring`; NICs
// from controller/view/channel_nics.h; no source ports. A channel names no NICs if they are the
// daemons' default. `hosts` is by position in communicator.hosts; null: no Topology has the host.
strategy::Strategy MakeFrame(const CommunicatorView& communicator,
                             const std::vector<HostIndex>& ring,
                             std::span<const FabricHost* const> hosts, const std::string& origin,
                             int channels_per_nic = 1);

// Whether they differ only in epoch and origin. Source ports that are all 0 equal none.
bool IsSameStrategy(const strategy::Strategy& a, const strategy::Strategy& b);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_STRATEGY_FRAME_H_
