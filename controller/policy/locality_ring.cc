#include "controller/policy/locality_ring.h"

#include "base/status_macros.h"
#include "controller/objects/policy_kind.h"
#include "controller/policy/ring_order.h"
#include "controller/policy/strategy_frame.h"
#include "controller/view/flow.h"

namespace mccs {

absl::StatusOr<strategy::Strategy> LocalityRing(const ClusterView& view, const Fabrics& fabrics,
                                                const CommunicatorView& subject,
                                                const LocalityRingOptions& options,
                                                SourcePorts* taken) {
  strategy::Strategy strategy =
      MakeFrame(subject, LocalityRingOrder(view, subject, options.order), HostsOf(fabrics, subject),
                Name(PolicyKind::kLocalityRing), options.channels_per_nic);
  MCCS_RETURN_IF_ERROR(AssignPorts(subject, options.ports, taken, &strategy));
  return strategy;
}

}  // namespace mccs
