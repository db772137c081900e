// Adds operators' objects to the view that agents report. Pure.
#ifndef MCCS_CONTROLLER_STATE_RESOLVED_VIEW_H_
#define MCCS_CONTROLLER_STATE_RESOLVED_VIEW_H_

#include "controller/objects/object_set.h"
#include "controller/view/cluster_view.h"

namespace mccs {

// `view` with the Topologies, Tenants and Drains of `objects`. A host in a Topology takes its
// position from there, unless it is mismatched (controller/state/topology_mismatch.h).
ClusterView ResolveView(ClusterView view, const ObjectSet& objects);

// The value of CommunicatorView::owner.
TenantView OwnerOf(const CommunicatorView& communicator, const ObjectSet& objects);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_RESOLVED_VIEW_H_
