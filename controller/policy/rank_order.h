// Policy: every channel's ring takes the hosts in the order of the ranks, as a library does that
// does not know where they stand. What other policies are measured against.
//
// Pure.
#ifndef MCCS_CONTROLLER_POLICY_RANK_ORDER_H_
#define MCCS_CONTROLLER_POLICY_RANK_ORDER_H_

#include "absl/status/statusor.h"
#include "controller/cluster_view.h"
#include "controller/policy/fabric.h"
#include "controller/policy/ring_ports.h"

namespace mccs {

inline constexpr char kRankOrderName[] = "rank_order";

// As LocalityRing (controller/policy/locality_ring.h), but for the order.
absl::StatusOr<strategy::Strategy> RankOrder(const Fabrics& fabrics,
                                             const CommunicatorView& subject,
                                             const RingPortOptions& ports, SourcePorts* taken,
                                             int channels_per_nic = 1);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_RANK_ORDER_H_
