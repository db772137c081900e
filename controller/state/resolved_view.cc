#include "controller/state/resolved_view.h"

#include <algorithm>

#include "controller/state/drains.h"
#include "controller/state/topology_mismatch.h"

namespace mccs {
TenantView OwnerOf(const CommunicatorView& communicator, const ObjectSet& objects) {
  const Object* object = FindTenant(objects, communicator.origin());
  if (object == nullptr) return {.name = communicator.tenant};
  const TenantSpec& tenant = TenantOf(*object);
  return {.name = object->key.name,
          .weight = tenant.weight,
          .guarantee_bps = tenant.guarantee_bps,
          .cap_bps = tenant.cap_bps,
          .priority = tenant.priority};
}

ClusterView ResolveView(ClusterView view, const ObjectSet& objects) {
  view.topologies.clear();
  for (const Object* object : objects.OfKind(ObjectKind::kTopology))
    view.topologies.push_back(TopologyOf(*object).topology);
  MarkMismatched(objects, &view);
  for (HostView& host : view.hosts) {
    if (host.mismatched) continue;
    for (const auto& topology : view.topologies) {
      if (const auto id = topology->FindHost(host.position.host))
        host.position = topology->PositionOf(*id);
    }
  }
  std::sort(view.hosts.begin(), view.hosts.end(),
            [](const HostView& a, const HostView& b) { return a.position < b.position; });
  for (CommunicatorView& communicator : view.communicators)
    communicator.owner = OwnerOf(communicator, objects);
  MarkDrained(objects, &view);
  return view;
}

}  // namespace mccs
