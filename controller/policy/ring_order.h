// The order of hosts around a communicator's rings.
#ifndef MCCS_CONTROLLER_POLICY_RING_ORDER_H_
#define MCCS_CONTROLLER_POLICY_RING_ORDER_H_

#include <string>
#include <vector>

#include "base/ids.h"
#include "controller/view/cluster_view.h"

namespace mccs {

// Locality order (topology/position.h), after the hosts in `first`, which keep their order. A host
// that is not in `view` has no pod and no rack.
std::vector<HostIndex> LocalityRingOrder(const ClusterView& view,
                                         const CommunicatorView& communicator,
                                         const std::vector<std::string>& first = {});

// By the lowest rank on each host; unchanged if the ranks are not known.
std::vector<HostIndex> RankRingOrder(const CommunicatorView& communicator);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_RING_ORDER_H_
