// Policy: rings in the order of ranks, as a library without knowledge of the topology builds them.
// The baseline for other policies.
//
// Pure.
#ifndef MCCS_CONTROLLER_POLICY_RANK_ORDER_H_
#define MCCS_CONTROLLER_POLICY_RANK_ORDER_H_

#include "absl/status/statusor.h"
#include "controller/policy/ring_ports.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"

namespace mccs {

// As LocalityRing (controller/policy/locality_ring.h), except for the order.
absl::StatusOr<strategy::Strategy> RankOrder(const Fabrics& fabrics,
                                             const CommunicatorView& subject,
                                             const RingPortOptions& ports, SourcePorts* taken,
                                             int channels_per_nic = 1);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_RANK_ORDER_H_
