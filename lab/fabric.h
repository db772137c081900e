// A running fabric: its nodes, and operations on its links.
//
// Every command creates its own instance. Shared state is in the kernel and, for changed rates, in
// a file in the lab's directory.
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

// Starts the nodes, creates the cables and sets the routes. The nodes end with this process.
// `paths`: the lab's directory, to which it writes the nodes' /etc/hosts.
absl::StatusOr<std::vector<NodeState>> BuildFabric(const FabricPlan& plan,
                                                   const NetworkTools& tools,
                                                   const LabPaths& paths);

class Fabric {
 public:
  // LIFETIME: `plan` outlives this. REQUIRES: BuildFabric created `nodes` from `plan`.
  Fabric(const FabricPlan& plan, NetworkTools tools, const std::vector<NodeState>& nodes)
      : plan_(plan), tools_(std::move(tools)), nodes_(nodes) {}

  // Kernel state of one direction of a link.
  struct Port {
    uint64_t bytes = 0;  // sent from the tail of `arc`
    bool is_up = false;  // the end at the tail
  };
  absl::StatusOr<Port> ReadPort(ArcId arc) const;

  // By link: true if one of its ends is down.
  absl::StatusOr<std::vector<bool>> DownLinks() const;

  // Sets both ends, then updates the routes of all affected nodes, as a routing protocol would.
  absl::Status SetUp(LinkId link, bool up) const;

  // Sets the rate of both directions.
  absl::Status SetRate(LinkId link, uint64_t rate_bps) const;

 private:
  pid_t Holder(NodeId node) const { return nodes_[node.value()].pid; }

  const FabricPlan& plan_;
  const NetworkTools tools_;
  const std::vector<NodeState>& nodes_;
};

// Tries all operations that a fabric needs, in a temporary node. kUnimplemented: the message names
// the missing privilege or kernel feature.
absl::Status CheckNetworkSupport(const NetworkTools& tools);

}  // namespace mccs::lab

#endif  // MCCS_LAB_FABRIC_H_
