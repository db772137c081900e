#include "controller/policy/rank_order.h"

#include "base/status_macros.h"
#include "controller/objects/policy_kind.h"
#include "controller/policy/ring_order.h"
#include "controller/policy/strategy_frame.h"
#include "controller/view/flow.h"

namespace mccs {

absl::StatusOr<strategy::Strategy> RankOrder(const Fabrics& fabrics,
                                             const CommunicatorView& subject,
                                             const RingPortOptions& ports, SourcePorts* taken,
                                             int channels_per_nic) {
  strategy::Strategy strategy =
      MakeFrame(subject, RankRingOrder(subject), HostsOf(fabrics, subject),
                Name(PolicyKind::kRankOrder), channels_per_nic);
  MCCS_RETURN_IF_ERROR(AssignPorts(subject, ports, taken, &strategy));
  return strategy;
}

}  // namespace mccs
