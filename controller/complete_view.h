// What operators say of a cluster, put beside what agents say of it. Pure.
#ifndef MCCS_CONTROLLER_COMPLETE_VIEW_H_
#define MCCS_CONTROLLER_COMPLETE_VIEW_H_

#include "controller/cluster_view.h"
#include "controller/objects/object_set.h"

namespace mccs {

// `view` with the Topologies, Tenants and Drains of `objects`. A host that a Topology has stands
// where that says, unless it is misdescribed there (controller/contradictions.h).
ClusterView CompleteView(ClusterView view, const ObjectSet& objects);

// A communicator's CommunicatorView::owner.
TenantView OwnerOf(const CommunicatorView& communicator, const ObjectSet& objects);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COMPLETE_VIEW_H_
