// Policy: rings in locality order; each flow takes the path with the least excess demand, round
// robin over tenants (source: fair flow assignment, FFA, in "MCCS", SIGCOMM 2024, policy 2; for
// differences see controller/policy/placement.h).
#ifndef MCCS_CONTROLLER_POLICY_FAIR_FLOW_H_
#define MCCS_CONTROLLER_POLICY_FAIR_FLOW_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/objects/policy_kind.h"
#include "controller/policy/flow_planner.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"

namespace mccs {

struct FairFlowOptions {
  FlowOptions flows = {};
  std::vector<std::string> order = {};  // hosts that every ring takes first
  std::string origin = Name(PolicyKind::kFairFlow);
  int channels_per_nic = 1;
};

// The strategy of `communicator`, of `view`, without ports: those come from the planner.
strategy::Strategy FairFlowFrame(const ClusterView& view, const Fabrics& fabrics,
                                 const CommunicatorView& communicator,
                                 const FairFlowOptions& options);

// Makes `planner` place its lanes together with others. Errors as in FlowPlanner::Add.
absl::Status AddFairFlow(const ClusterView& view, const Fabrics& fabrics,
                         const CommunicatorView& communicator, const FairFlowOptions& options,
                         FlowPlanner* planner);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_FAIR_FLOW_H_
