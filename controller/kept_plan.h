// What planner.h decides, without planning all anew each time: fabrics with their paths, and the
// flows of each communicator with paths and ports (controller/policy/flow_planner.h), are kept as
// long as nothing changes that they follow from. It finds what planner.h finds.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_KEPT_PLAN_H_
#define MCCS_CONTROLLER_KEPT_PLAN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"
#include "controller/planner.h"
#include "controller/policy/fabric.h"
#include "controller/policy/flow_planner.h"
#include "controller/policy/priority_flow.h"
#include "controller/policy/source_ports.h"

namespace mccs {

class KeptPlan {
 public:
  // REQUIRES of all: `view` is KeptView's, under `objects`.

  // As DecideComplete. It does plan anew where some communicator's flows are not placed: under
  // another policy, or because no Topology has its hosts.
  Decisions Decide(const ObjectSet& objects, const ClusterView& view);
  // As ChooseStrategy, with the same errors.
  absl::StatusOr<strategy::Strategy> Choose(const ObjectSet& objects, const ClusterView& view,
                                            CommId id);
  // Does ahead what the next of them would have to do first.
  void Follow(const ObjectSet& objects, const ClusterView& view);

  // Of the view that it followed last. REQUIRES: there was one.
  const Fabrics& fabrics() const { return ground_->fabrics; }

 private:
  // A communicator as the planner has it.
  struct Known {
    uint64_t revision = 0;
    bool placed = false;
    std::vector<SourcePorts::Port> ports = {};
  };
  // What follows from the Topologies, hosts and objects, and what was worked out over it.
  struct Ground {
    Ground(const ObjectSet& objects, const ClusterView& view);

    const uint64_t number;
    const std::vector<Reservation> reservations;
    const Fabrics fabrics;
    SourcePorts taken;
    FlowPlanner planner{&fabrics, &taken};
    std::map<CommId, Known> known = {};
    size_t not_placed = 0;
  };

  void Learn(const ObjectSet& objects, const ClusterView& view,
             const CommunicatorView& communicator);
  void Forget(std::map<CommId, Known>::iterator known);

  std::unique_ptr<Ground> ground_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_KEPT_PLAN_H_
