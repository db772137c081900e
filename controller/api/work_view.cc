#include "controller/api/work_view.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/api/operator_view.h"
#include "controller/state/resolved_view.h"

namespace mccs {
WorkInput GatherWork(const ClusterState& state, std::shared_ptr<const ProbedPaths> probed) {
  std::vector<std::pair<CommId, const CommunicatorRecord*>> records;
  for (const auto& [id, record] : state.registry.communicators()) records.emplace_back(id, &record);
  std::stable_sort(records.begin(), records.end(),
                   [](const auto& a, const auto& b) { return a.second->since < b.second->since; });
  WorkInput input;
  input.view.hosts = state.registry.HostViews();
  input.report_every_ns = state.report_every_ns;
  input.view.probed = std::move(probed);
  for (const auto& [id, record] : records) {
    WorkRecord& next = input.records.emplace_back();
    next.work.set_id(FormatCommId(id));
    next.work.set_name(record->announced.name());
    next.work.set_tenant(TenantNameOf(*state.objects, record->origin()));
    next.work.set_state(StateOfCommunicator(state.registry, *record));
    next.work.set_ranks(record->announced.members_size());
    const auto& hosts = record->announced.hosts();
    for (const auto& [host, report] : record->reports) {
      control::v1::HostWork* work = next.work.add_hosts();
      work->set_host(host);
      work->set_measured_ns(report.measured_ns());
      *work->mutable_work() = report.work();
      for (const agent::v1::Lane& lane : report.lanes()) {
        const bool known = lane.from() >= 0 && lane.from() < hosts.size() && lane.to() >= 0 &&
                           lane.to() < hosts.size();
        if (!known || !lane.state().starts_with("up")) continue;
        next.lanes.push_back({hosts[lane.from()], hosts[lane.to()], lane.local(), lane.remote()});
      }
    }
  }
  return input;
}

control::v1::ListWorkReply ShowWork(WorkInput input, const ObjectSet& objects) {
  const Fabrics fabrics(ResolveView(std::move(input.view), objects));
  control::v1::ListWorkReply reply;
  reply.set_report_every_ns(input.report_every_ns);
  for (WorkRecord& record : input.records) {
    std::set<std::string> links, pairs;
    for (const LaneEnds& lane : record.lanes) {
      if (const auto taken = LinksOfLane(fabrics, lane)) {
        links.insert(taken->begin(), taken->end());
      } else {
        pairs.insert(absl::StrCat(lane.from, " → ", lane.to));
      }
    }
    record.work.mutable_links()->Add(links.begin(), links.end());
    record.work.mutable_pairs()->Add(pairs.begin(), pairs.end());
    *reply.add_communicators() = std::move(record.work);
  }
  return reply;
}

std::vector<std::string> UsersOfLink(const control::v1::ListWorkReply& work,
                                     const std::string& link) {
  std::vector<std::string> users;
  for (const control::v1::CommunicatorWork& each : work.communicators()) {
    if (std::find(each.links().begin(), each.links().end(), link) != each.links().end())
      users.push_back(each.id());
  }
  return users;
}

}  // namespace mccs
