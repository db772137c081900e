#include "controller/policy/fair_flow.h"

#include "controller/policy/flow.h"
#include "controller/policy/ring_order.h"
#include "controller/policy/strategy_frame.h"

namespace mccs {

absl::Status AddFairFlow(const ClusterView& view, const Fabrics& fabrics,
                         const CommunicatorView& communicator, const FairFlowOptions& options,
                         FlowPlanner* planner) {
  return planner->Add(
      communicator,
      FrameOf(communicator, LocalityRingOrder(view, communicator, options.order),
              HostsOf(fabrics, communicator), options.origin, options.channels_per_nic),
      options.flows);
}

}  // namespace mccs
