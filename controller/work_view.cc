#include "controller/work_view.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "controller/operator_view.h"

namespace mccs {
namespace {

// The NIC with that address, or the only one.
std::optional<NicId> NicOf(const Topology& topology, HostId host, const std::string& address) {
  const std::vector<NicId>& nics = topology.host(host).nics;
  for (NicId nic : nics) {
    if (topology.nic(nic).address == address) return nic;
  }
  return nics.size() == 1 ? std::optional(nics.front()) : std::nullopt;
}

}  // namespace

LinkFinder::LinkFinder(const ObjectSet& objects, std::shared_ptr<const ProbedPaths> probed) {
  ClusterView view;
  view.probed = std::move(probed);
  for (const Object* object : objects.OfKind(ObjectKind::kTopology)) {
    fabrics_.push_back(std::make_unique<Fabric>(TopologyOf(*object).topology, view));
  }
}

bool LinkFinder::Add(const LaneEnds& lane, std::set<std::string>* links) {
  const absl::StatusOr<Endpoint> local = ParseEndpoint(lane.local);
  const absl::StatusOr<Endpoint> remote = ParseEndpoint(lane.remote);
  if (!local.ok() || !remote.ok() || local->port == 0 || remote->port == 0) return false;
  for (const std::unique_ptr<Fabric>& fabric : fabrics_) {
    const Topology& topology = fabric->topology();
    const std::optional<HostId> from = topology.FindHost(lane.from),
                                to = topology.FindHost(lane.to);
    if (!from || !to || *from == *to) continue;
    const std::optional<NicId> out = NicOf(topology, *from, local->host);
    const std::optional<NicId> into = NicOf(topology, *to, remote->host);
    if (!out || !into) return false;
    const FlowEnds flow{.from = *out, .to = *into, .destination_port = remote->port};
    const auto path = fabric->ports().PathOf(flow, local->port);
    if (!path.ok() || !path->has_value()) return false;
    for (ArcId arc : fabric->paths().Between(*out, *into)[**path]) {
      links->insert(topology.link(LinkOf(arc)).name);
    }
    return true;
  }
  return false;
}

std::vector<WorkRecord> ListWork(const Registry& registry, const ObjectSet& objects) {
  std::vector<std::pair<CommId, const CommunicatorRecord*>> records;
  for (const auto& [id, record] : registry.communicators()) records.emplace_back(id, &record);
  std::stable_sort(records.begin(), records.end(),
                   [](const auto& a, const auto& b) { return a.second->since < b.second->since; });
  std::vector<WorkRecord> out;
  for (const auto& [id, record] : records) {
    WorkRecord& next = out.emplace_back();
    next.work.set_id(FormatCommId(id));
    next.work.set_name(record->announced.name());
    next.work.set_tenant(TenantNameOf(objects, record->origin()));
    next.work.set_state(StateOfCommunicator(registry, *record));
    next.work.set_ranks(record->announced.members_size());
    const auto& hosts = record->announced.hosts();
    for (const auto& [host, report] : record->reports) {
      control::HostWork* work = next.work.add_hosts();
      work->set_host(host);
      work->set_measured_ns(report.measured_ns());
      *work->mutable_work() = report.work();
      for (const agent::Lane& lane : report.lanes()) {
        const bool known = lane.from() >= 0 && lane.from() < hosts.size() && lane.to() >= 0 &&
                           lane.to() < hosts.size();
        if (!known || !lane.state().starts_with("up")) continue;
        next.lanes.push_back({hosts[lane.from()], hosts[lane.to()], lane.local(), lane.remote()});
      }
    }
  }
  return out;
}

control::ListWorkReply ShowWork(std::vector<WorkRecord> records, const ObjectSet& objects,
                                std::shared_ptr<const ProbedPaths> probed) {
  LinkFinder finder(objects, std::move(probed));
  control::ListWorkReply reply;
  for (WorkRecord& record : records) {
    std::set<std::string> links, pairs;
    bool by_topology = !record.lanes.empty();
    for (const LaneEnds& lane : record.lanes) {
      by_topology = by_topology && finder.Add(lane, &links);
      pairs.insert(absl::StrCat(lane.from, " → ", lane.to));
    }
    record.work.set_links_by_topology(by_topology);
    for (const std::string& link : by_topology ? links : pairs) record.work.add_links(link);
    *reply.add_communicators() = std::move(record.work);
  }
  return reply;
}

}  // namespace mccs
