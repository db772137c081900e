// Places the flows of all communicators together: each lane gets a path, and a source port that
// leads over it. What fair_flow.h and priority_flow.h have in common.
//
// Flows that are well placed keep path and port (placement.h). New ones are taken round robin over
// the tenants, in the order of their names.
//
// What it finds follows from the communicators that it has, as they run now, and from nothing else:
// neither from the order in which they came nor from what it found before. So it can be kept, and
// told only of those that have changed.
//
// OWNER: whoever runs policies. THREAD: one.
#ifndef MCCS_CONTROLLER_POLICY_FLOW_PLANNER_H_
#define MCCS_CONTROLLER_POLICY_FLOW_PLANNER_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/cluster_view.h"
#include "controller/policy/allowed_paths.h"
#include "controller/policy/fabric.h"
#include "controller/policy/flow.h"
#include "controller/policy/placement.h"
#include "controller/policy/source_ports.h"

namespace mccs {

struct FlowOptions {
  std::optional<PortRange> ports = {};  // within the Topology's candidates
  // Names of links; no flow is placed there while there is another path.
  std::vector<std::string> avoid_links = {};
  bool last = false;  // new flows are placed after those of others
};

class FlowPlanner {
 public:
  // LIFETIME: all outlive it. `taken` has the ports that all communicators have now, whenever this
  // is asked, and is left as it was.
  FlowPlanner(const Fabrics* fabrics, SourcePorts* taken) : fabrics_(fabrics), taken_(taken) {}

  // A communicator that runs `strategy` whatever this does.
  void AddFixed(const CommunicatorView& communicator, const strategy::Strategy& strategy);

  // One whose lanes are to be placed. `frame` is its strategy to be, without ports.
  // kNotFound, kFailedPrecondition: it cannot be; the text says why, and it counts as fixed.
  absl::Status Add(const CommunicatorView& communicator, strategy::Strategy frame,
                   const FlowOptions& options);

  // REQUIRES: it was added. Adding it again replaces it, too.
  void Remove(CommId id) { jobs_.erase(id); }

  struct Planned {
    CommId id;
    strategy::Strategy strategy;
    // Lanes whose port leads over another path than theirs, or none that is known: every port of
    // their path is taken, or none leads over it.
    int astray = 0;
    int unprobed = 0;  // lanes that have no path, for no probe has told of any port of theirs
  };
  enum class Which { kAll, kChanged };
  // By id, the strategies of all that are to be placed, or of those that get another one than they
  // run.
  std::vector<Planned> Solve(Which which = Which::kAll);
  // The strategy of one of them if all others run what they run.
  Planned SolveOne(CommId id);

  // Flows that had a path and were given another one by the last call.
  size_t moved() const { return moved_; }

 private:
  class Solving;

  struct Lane {
    Flow flow;  // with the port that it has now
    SourcePorts::Ends ends = {};
    std::optional<PathIndex> port_path = {};  // over which that port leads
    bool may_stay = false;                    // it is known and within the limits
  };
  struct Job {
    Fabric* fabric = nullptr;         // null: it has no flows
    std::vector<PlacedFlow> running;  // as it runs; all are fixed
    bool is_fixed = true;
    // Of those that are not, by lane:
    std::vector<Lane> lanes = {};
    std::vector<PlacedFlow> flows = {};
    std::string tenant = {};
    strategy::Strategy frame = {};  // with the ports that it has now
    SourcePortRange ports = {};
    bool same_frame = false;                    // it differs from what it runs in nothing
    std::vector<SourcePorts::Port> loose = {};  // that it has now, and no lane may keep
  };

  std::vector<PlacedFlow> FixedFlows(const CommunicatorView& communicator,
                                     const strategy::Strategy& strategy, Fabric** fabric) const;
  // Whether links lead from end to end, and which port takes which path is known.
  absl::Status CheckWays(Fabric* fabric, const std::vector<Flow>& flows) const;
  void AddLane(const CommunicatorView& communicator, const Flow& flow, int limits, bool last,
               Job* job);
  void FindLoosePorts(const CommunicatorView& communicator, Job* job);

  const Fabrics* const fabrics_;
  SourcePorts* const taken_;
  AllowedPaths allowed_;
  std::map<CommId, Job> jobs_;
  size_t moved_ = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_FLOW_PLANNER_H_
