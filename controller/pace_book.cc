#include "controller/pace_book.h"

#include <algorithm>
#include <utility>

namespace mccs {
namespace {

agent::Pace ToProto(const PlannedPace& planned, uint64_t revision) {
  agent::Pace pace;
  pace.set_comm_id(planned.id.value());
  pace.set_revision(revision);
  pace.set_priority(planned.priority);
  pace.set_tenant_rate_bps(planned.tenant_rate_bps);
  pace.set_tenant(planned.tenant);
  for (const PlannedPace::Lane& lane : planned.lanes) {
    agent::LanePace* out = pace.add_lanes();
    out->set_channel(lane.channel);
    out->set_from(lane.from);
    out->set_to(lane.to);
    out->set_rate_bps(lane.rate_bps);
  }
  if (planned.windows) {
    pace.mutable_windows()->set_period_ns(planned.windows->period_ns);
    pace.mutable_windows()->set_origin_ns(planned.windows->origin);
    pace.mutable_windows()->set_open_ns(planned.windows->open_ns);
  }
  return pace;
}

bool IsFree(const PlannedPace& pace) {
  return pace.lanes.empty() && pace.priority == 0 && !pace.windows && pace.tenant_rate_bps == 0;
}

}  // namespace

std::vector<agent::Pace> PaceBook::Update(const std::vector<PlannedPace>& planned, bool lifts) {
  std::vector<agent::Pace> news;
  std::map<CommId, Told> before = std::exchange(told_, {});
  for (const PlannedPace& pace : planned) {
    const auto old = before.find(pace.id);
    if (old == before.end() && !lifts && IsFree(pace)) continue;
    if (old != before.end() && old->second.pace == pace) {
      told_.insert(before.extract(old));
      continue;
    }
    told_[pace.id] = {pace, ++revision_};
    news.push_back(ToProto(pace, revision_));
  }
  return news;
}

std::vector<agent::Pace> PaceBook::HeldOn(
    const std::string& host, const std::map<CommId, CommunicatorRecord>& communicators) const {
  std::vector<agent::Pace> held;
  for (const auto& [id, told] : told_) {
    const auto known = communicators.find(id);
    if (known == communicators.end()) continue;
    const auto& hosts = known->second.announced.hosts();
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) continue;
    held.push_back(ToProto(told.pace, told.revision));
  }
  return held;
}

}  // namespace mccs
