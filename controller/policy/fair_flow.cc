#include "controller/policy/fair_flow.h"

#include "controller/policy/ring_order.h"
#include "controller/policy/strategy_frame.h"
#include "controller/view/flow.h"

namespace mccs {

strategy::Strategy FairFlowFrame(const ClusterView& view, const Fabrics& fabrics,
                                 const CommunicatorView& communicator,
                                 const FairFlowOptions& options) {
  return MakeFrame(communicator, LocalityRingOrder(view, communicator, options.order),
                   HostsOf(fabrics, communicator), options.origin, options.channels_per_nic);
}

absl::Status AddFairFlow(const ClusterView& view, const Fabrics& fabrics,
                         const CommunicatorView& communicator, const FairFlowOptions& options,
                         FlowPlanner* planner) {
  return planner->Add(communicator, FairFlowFrame(view, fabrics, communicator, options),
                      options.flows);
}

}  // namespace mccs
