// Adds operators' objects to the view that agents report.
#ifndef MCCS_CONTROLLER_STATE_RESOLVED_VIEW_H_
#define MCCS_CONTROLLER_STATE_RESOLVED_VIEW_H_

#include <cstdint>
#include <memory>

#include "controller/objects/object.h"
#include "controller/state/recovered_strategies.h"
#include "controller/state/registry.h"
#include "controller/state/unreachable_pairs.h"
#include "controller/view/cluster_view.h"

namespace mccs {

// `view` with the Topologies, Tenants and Drains of `objects`. A host in a Topology takes its
// position from there, unless it is mismatched (controller/state/topology_mismatch.h).
ClusterView ResolveView(ClusterView view, const ObjectSet& objects);

// The value of CommunicatorView::owner.
TenantView OwnerOf(const CommunicatorView& communicator, const ObjectSet& objects);

// Caches the resolved view for policies. Between calls only changed communicators are updated.
//
// OWNER: Coordinator. THREAD: its owner only.
class ViewCache {
 public:
  // LIFETIME: all outlive this.
  ViewCache(const Registry* registry, const RecoveredStrategies* strategies,
            const UnreachablePairs* unreachable)
      : registry_(*registry), strategies_(*strategies), unreachable_(*unreachable) {}

  // The resolved view under `objects`, with the paths in `probed`. The next call changes the
  // returned view.
  const ClusterView& Get(std::shared_ptr<const ObjectSet> objects,
                         std::shared_ptr<const ProbedPaths> probed);

 private:
  // Inputs of everything but communicators.
  struct ViewInputs {
    std::shared_ptr<const ObjectSet> objects;
    std::shared_ptr<const ProbedPaths> probed;
    uint64_t hosts_revision = 0, recovered_revision = 0, unreachable_revision = 0;

    friend bool operator==(const ViewInputs&, const ViewInputs&) = default;
  };

  // Adds, updates and removes communicators.
  void Refresh();
  CommunicatorView Resolve(CommId id) const;

  const Registry& registry_;
  const RecoveredStrategies& strategies_;
  const UnreachablePairs& unreachable_;
  ViewInputs inputs_;
  ClusterView view_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_RESOLVED_VIEW_H_
