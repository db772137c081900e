#include "controller/state/resolved_view.h"

#include <algorithm>
#include <utility>
#include <vector>

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

const ClusterView& ViewCache::Get(std::shared_ptr<const ObjectSet> objects,
                                  std::shared_ptr<const ProbedPaths> probed) {
  ViewInputs inputs = {std::move(objects), std::move(probed), registry_.hosts_revision(),
                       strategies_.revision(), unreachable_.revision()};
  if (view_.generation > 0 && inputs == inputs_) {
    Refresh();
    return view_;
  }
  const uint64_t number = view_.generation + 1;
  inputs_ = std::move(inputs);
  view_ = ResolveView(strategies_.AddRecovered(registry_.View()), *inputs_.objects);
  view_.probed = inputs_.probed;
  view_.unreachable = unreachable_.names();
  view_.generation = number;
  return view_;
}

void ViewCache::Refresh() {
  std::vector<CommunicatorView>& now = view_.communicators;
  std::vector<CommunicatorView> next;
  next.reserve(registry_.communicators().size());
  auto old = now.begin();
  // Removes or updates entries; recovered communicators stay.
  const auto pass = [&](auto has_passed) {
    for (; old != now.end() && !has_passed(old->id); ++old) {
      if (old->revision == 0) next.push_back(std::move(*old));
    }
  };
  for (const auto& [id, record] : registry_.communicators()) {
    pass([&](CommId other) { return other >= id; });
    const bool is_there = old != now.end() && old->id == id;
    const bool same = is_there && old->revision == record.revision;
    next.push_back(same ? std::move(*old) : Resolve(id));
    if (is_there) ++old;
  }
  pass([](CommId /*other*/) { return false; });
  now = std::move(next);
}

CommunicatorView ViewCache::Resolve(CommId id) const {
  CommunicatorView communicator = registry_.View(id);
  communicator.owner = OwnerOf(communicator, *inputs_.objects);
  communicator.reconnecting = strategies_.IsReconnecting(communicator, view_.hosts);
  return communicator;
}

}  // namespace mccs
