// Places the flows of all communicators together: each lane gets a path, and a source port that
// leads over it. What fair_flow.h and priority_flow.h have in common.
//
// Flows that are well placed keep path and port (placement.h). New ones are taken round robin over
// the tenants, in the order of their names.
//
// OWNER: the policy at work. THREAD: one.
#ifndef MCCS_CONTROLLER_POLICY_FLOW_PLANNER_H_
#define MCCS_CONTROLLER_POLICY_FLOW_PLANNER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "controller/cluster_view.h"
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
  // LIFETIME: all outlive it. `taken` has the ports of whatever is told to it.
  FlowPlanner(const Fabrics* fabrics, SourcePorts* taken) : fabrics_(fabrics), taken_(taken) {}

  // A communicator that runs `strategy` whatever this does; its ports are taken already.
  void AddFixed(const CommunicatorView& communicator, const strategy::Strategy& strategy);

  // One whose lanes are to be placed. `frame` is its strategy to be, without ports. The ports that
  // it has now are taken already; Solve() gives back those that it does not keep.
  // kNotFound, kFailedPrecondition: it cannot be; the text says why, and it counts as fixed.
  absl::Status Add(const CommunicatorView& communicator, strategy::Strategy frame,
                   const FlowOptions& options);

  struct Planned {
    CommId id;
    strategy::Strategy strategy;
    // Lanes whose port leads over another path than theirs, or none that is known: every port of
    // their path is taken, or none leads over it.
    int astray = 0;
    int unprobed = 0;  // lanes that have no path, for no probe has told of any port of theirs
  };
  // The strategies of all that were added, and in later calls of those among them whose lanes have
  // moved since the call before, in the order of Add.
  std::vector<Planned> Solve();

  // Flows that had a path and have been given another one, in all calls.
  size_t moved() const { return moved_; }

 private:
  struct Lane {
    int subject = -1;  // whose strategy it is part of; −1: fixed
    Flow flow;
    SourcePorts::Ends ends = {};
    std::optional<PathIndex> port_path = {};  // over which flow.source_port leads
    bool held = false;                        // that port is taken for it
  };
  // Flows over one fabric. lanes[i] is placed[i].
  struct Group {
    Fabric* fabric = nullptr;
    std::vector<PlacedFlow> placed;
    std::vector<Lane> lanes;
    size_t ordered = 0;  // so many have their place in the order
  };
  // What distinguishes the paths that flows between the same switches may take.
  using Limits = std::tuple<std::vector<std::string>, uint16_t, uint16_t>;
  struct Subject {
    CommId id;
    std::string tenant;
    strategy::Strategy strategy;
    SourcePortRange ports;
    int limits = 0;  // number of its Limits
    int astray = 0;
    int unprobed = 0;
    bool changed = true;
  };
  // Ends are switches, or NICs where these differ in the ports that are known (`probe`).
  using AllowedKey = std::tuple<Fabric*, int32_t, int32_t, int>;

  // Paths that such flows may take.
  struct Allowed {
    std::unique_ptr<std::vector<PathIndex>> paths;  // null: all
    bool any_port = true;                           // some port is known to lead over one of them
  };

  Group& GroupOf(Fabric* fabric);
  // Whether links lead from end to end, and which port takes which path is known.
  absl::Status CheckWays(Fabric* fabric, const std::vector<Flow>& flows) const;
  // Of the last subject.
  void AddLane(const CommunicatorView& communicator, const Flow& flow, const FlowOptions& options,
               Group* group);
  const Allowed& AllowedPaths(Fabric* fabric, const Flow& flow, const FlowOptions& options,
                              const Subject& subject);
  void OrderNew(Group* group);
  void KeepPorts(Group* group);
  void ChoosePorts(Group* group);

  const Fabrics* const fabrics_;
  SourcePorts* const taken_;
  std::vector<Group> groups_;
  std::vector<Subject> subjects_;
  std::map<Limits, int> limits_;
  absl::flat_hash_map<AllowedKey, Allowed> allowed_;
  size_t moved_ = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_FLOW_PLANNER_H_
