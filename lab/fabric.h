// A fabric that stands: its nodes, and what can be done to it while it does.
//
// Every command that finds a lab has its own; what they share is the kernel's state and, for rates
// that were changed, a file in the lab's folder.
#ifndef MCCS_LAB_FABRIC_H_
#define MCCS_LAB_FABRIC_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lab/fabric_plan.h"
#include "lab/lab_state.h"
#include "lab/network_tools.h"

namespace mccs::lab {

// Starts the nodes, lays the cables and sets the routes. The nodes live no longer than this
// process. `paths`: the lab's folder, which gets the nodes' /etc/hosts.
absl::StatusOr<std::vector<NodeState>> BuildFabric(const FabricPlan& plan,
                                                   const NetworkTools& tools,
                                                   const LabPaths& paths);

class Fabric {
 public:
  // LIFETIME: `plan` outlives this. REQUIRES: `nodes` are those that BuildFabric made of it.
  Fabric(const FabricPlan& plan, NetworkTools tools, const std::vector<NodeState>& nodes)
      : plan_(plan), tools_(std::move(tools)), nodes_(nodes) {}

  // One direction of a link, as the kernel has it.
  struct Port {
    uint64_t bytes = 0;  // that have left from the tail of `arc`
    bool is_up = false;  // that end
  };
  absl::StatusOr<Port> Look(ArcId arc) const;

  // By link: whether one of its ends is down.
  absl::StatusOr<std::vector<bool>> DownLinks() const;

  // Both ends, and then the routes of all nodes that it concerns, as a routing protocol would.
  absl::Status SetUp(LinkId link, bool up) const;

  // Both directions.
  absl::Status SetRate(LinkId link, uint64_t rate_bps) const;

 private:
  pid_t Holder(NodeId node) const { return nodes_[node.value()].pid; }

  const FabricPlan& plan_;
  const NetworkTools tools_;
  const std::vector<NodeState>& nodes_;
};

}  // namespace mccs::lab

#endif  // MCCS_LAB_FABRIC_H_
