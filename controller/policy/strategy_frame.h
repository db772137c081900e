// What every policy's strategy begins as: the communicator's own, but for rings and NICs.
#ifndef MCCS_CONTROLLER_POLICY_STRATEGY_FRAME_H_
#define MCCS_CONTROLLER_POLICY_STRATEGY_FRAME_H_

#include <span>
#include <string>
#include <vector>

#include "controller/cluster_view.h"
#include "controller/policy/fabric.h"

namespace mccs {

// Lane shape, skew and algorithms as they are now, epoch one higher, every channel's ring in
// `ring`'s order, NICs as controller/policy/channel_nics.h chooses them, no source ports yet.
// A channel whose NICs are what its daemons use anyway names none. `hosts` is by position in
// communicator.hosts; null where no Topology has the host.
strategy::Strategy FrameOf(const CommunicatorView& communicator, const std::vector<HostIndex>& ring,
                           std::span<const FabricHost* const> hosts, const std::string& origin,
                           int channels_per_nic = 1);

// Whether the two differ in epoch and origin alone. Source ports that are all 0 are none.
bool SameButForItsName(const strategy::Strategy& a, const strategy::Strategy& b);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_STRATEGY_FRAME_H_
