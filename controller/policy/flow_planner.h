// Places the flows of all communicators together: gives each lane a path, and a source port that
// leads over it.
//
// Flows keep path and port if they are well placed (placement.h). New flows are taken round robin
// over the tenants, in the order of their names.
//
// The result depends only on the communicators and their current strategies, not on the order of
// calls or on earlier results. A FlowPlanner can therefore be cached and updated incrementally.
//
// OWNER: the component that runs policies. THREAD: one.
#ifndef MCCS_CONTROLLER_POLICY_FLOW_PLANNER_H_
#define MCCS_CONTROLLER_POLICY_FLOW_PLANNER_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/policy/placement.h"
#include "controller/view/allowed_paths.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"
#include "controller/view/flow.h"
#include "controller/view/source_ports.h"

namespace mccs {

struct FlowOptions {
  std::optional<SourcePortRange> ports = {};  // within the Topology's candidates
  // Names of links that get no flow while another path exists.
  std::vector<std::string> avoid_links = {};
  bool last = false;  // place new flows after those of others
  // Solve leaves its strategy as it is, SolveOne does not.
  bool stays = false;
};

class FlowPlanner {
 public:
  // LIFETIME: both outlive it. `taken` holds the current ports of all communicators during all
  // calls; calls leave it unchanged.
  FlowPlanner(const Fabrics* fabrics, SourcePorts* taken) : fabrics_(fabrics), taken_(taken) {}

  // Adds a communicator whose strategy this object does not change.
  void AddFixed(const CommunicatorView& communicator, const strategy::Strategy& strategy);

  // Adds a communicator whose lanes are to be placed. `frame` is its new strategy without ports.
  // kNotFound, kFailedPrecondition: not possible (the message has the reason); it is added as
  // fixed.
  absl::Status Add(const CommunicatorView& communicator, strategy::Strategy frame,
                   const FlowOptions& options);

  // REQUIRES: it was added. Add replaces an earlier entry, too.
  void Remove(CommId id) { jobs_.erase(id); }

  struct Planned {
    CommId id;
    strategy::Strategy strategy;
    // Lanes whose port leads over another path than planned, or over an unknown one: no port that
    // leads over their path is free.
    int off_path = 0;
    int unprobed = 0;  // lanes without a path: no port of theirs has a probe result
  };
  // The strategies that differ from the current ones, by id.
  std::vector<Planned> Solve();
  // The strategy of one communicator if all others keep theirs.
  Planned SolveOne(CommId id);

  // Number of flows that the last call moved to another path.
  size_t moved() const { return moved_; }

 private:
  class SolverRun;

  struct Lane {
    Flow flow;  // with its current port
    SourcePorts::Ends ends = {};
    std::optional<PathIndex> port_path = {};  // path of that port
    bool may_stay = false;                    // port_path is known and within the limits
  };
  struct Job {
    Fabric* fabric = nullptr;         // null: no flows
    std::vector<PlacedFlow> running;  // as they run now; all are fixed
    bool is_fixed = true;             // by AddFixed
    bool stays = true;                // for Solve
    // If not fixed, by lane:
    std::vector<Lane> lanes = {};
    std::vector<PlacedFlow> flows = {};
    std::string tenant = {};
    strategy::Strategy frame = {};  // with the current ports
    SourcePortRange ports = {};
    bool same_frame = false;                         // equals the current strategy, except ports
    std::vector<SourcePorts::Port> unassigned = {};  // current ports that no lane may keep
  };

  std::vector<PlacedFlow> FixedFlows(const CommunicatorView& communicator,
                                     const strategy::Strategy& strategy, Fabric** fabric) const;
  // Checks that links join both ends of each flow, and that the paths of source ports are known.
  absl::Status CheckPaths(Fabric* fabric, const std::vector<Flow>& flows) const;
  void AddLane(const CommunicatorView& communicator, const Flow& flow, int limits, bool last,
               Job* job);
  void FindUnassignedPorts(const CommunicatorView& communicator, Job* job);

  const Fabrics* const fabrics_;
  SourcePorts* const taken_;
  AllowedPaths allowed_;
  std::map<CommId, Job> jobs_;
  size_t moved_ = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_FLOW_PLANNER_H_
