// Selects the strategy of each communicator. All other parts ask this class.
//
// 1. Each communicator has one Policy (applied_policies.h). It defines the frame of its strategy:
//    the order of hosts around the rings, channels and NICs. Policies `algorithm` and measured
//    costs complete the frame.
// 2. Communicators whose Policy does not place flows get a source port for each lane, one
//    communicator after the other.
// 3. The flows of all others are placed together around them (controller/policy/flow_planner.h).
//    A communicator whose flows cannot be placed, because no Topology has its hosts, gets ports as
//    in step 2, and the origin of its strategy has the reason.
//
// Data of one communicator alone (its frame, flows, paths and used ports) is cached until
// its revision in the view changes, and everything until the generation of the view changes.
// Decisions are not cached: they depend on the view only, whatever was decided before.
//
// OWNER: Coordinator; elsewhere a temporary one, which plans from scratch. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_PLANNING_PLANNER_H_
#define MCCS_CONTROLLER_PLANNING_PLANNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/objects/object.h"
#include "controller/policy/flow_planner.h"
#include "controller/policy/rings.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"
#include "controller/view/source_ports.h"

namespace mccs {

// A communicator that should get a strategy other than its newest one.
struct Decision {
  CommId id;
  strategy::Strategy strategy;
  std::string change;  // description for operators
};

struct Decisions {
  std::vector<Decision> changed;  // by id
  // Of communicators without a new strategy; they keep their current one.
  std::vector<absl::Status> trouble;
};

// Sets the decided strategies in `view`, for which they were decided.
void PutStrategies(const Decisions& decisions, ClusterView* view);

class Planner {
 public:
  // REQUIRES of all: `view` is resolved for `objects` (controller/state/resolved_view.h), and
  // generations of views that are not 0 differ if anything but communicators differs.

  // For all communicators of the view; those that are reconnecting keep their strategies. Errors as
  // in ChooseRingPorts.
  Decisions Decide(const ObjectSet& objects, const ClusterView& view);
  // The strategy of one communicator, with its epoch one higher, if all others keep theirs.
  // kNotFound: unknown id. Else errors as in ChooseRingPorts.
  absl::StatusOr<strategy::Strategy> DecideOne(const ObjectSet& objects, const ClusterView& view,
                                               CommId id);
  // Updates the cache in advance, so that the next call has less work.
  void Update(const ObjectSet& objects, const ClusterView& view);

  // Of the last view. REQUIRES: one of the above was called.
  const Fabrics& fabrics() const { return state_->fabrics; }

 private:
  using Ports = std::vector<SourcePorts::Port>;
  // A communicator.
  struct Entry {
    uint64_t revision = 0;
    bool reconnecting = false;
    bool decides_flows = false;  // its Policy does
    bool placed = false;         // State::flows has its frame and flows; else the following are set
    strategy::Strategy frame = {};
    bool same_frame = false;  // equals the current strategy, except ports
    RingPortOptions port_options = {};
    Ports ports = {};                     // current
    std::optional<Ports> new_ports = {};  // taken instead, while Decide runs
  };
  // Everything derived from Topologies, hosts and objects.
  struct State {
    State(const ObjectSet& objects, const ClusterView& view);

    const uint64_t generation;
    // Parameters of Policies that reserve links.
    const std::vector<PolicyParameters> reservations;
    const bool places_flows;  // some Policy does
    const Fabrics fabrics;
    SourcePorts taken;
    FlowPlanner flows{&fabrics, &taken};
    std::map<CommId, Entry> entries = {};
  };
  using Strategies = std::map<CommId, absl::StatusOr<strategy::Strategy>>;

  void AddEntry(const ObjectSet& objects, const ClusterView& view,
                const CommunicatorView& communicator);
  void Remove(std::map<CommId, Entry>::iterator entry);
  // Steps of Decide. They add strategies that may differ from the current ones.
  void DecideRings(const ClusterView& view, bool decides_flows, Strategies* strategies);
  void PlaceFlows(Strategies* strategies);
  void RestorePorts(const ClusterView& view);

  std::unique_ptr<State> state_;
};

// The decisions of a new planner. `view` need not be resolved.
Decisions Decide(const ObjectSet& objects, const ClusterView& view);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_PLANNING_PLANNER_H_
