#include "controller/sent_limits.h"

#include <algorithm>
#include <utility>

namespace mccs {
namespace {

agent::RateLimits ToProto(const PlannedRateLimits& planned, uint64_t revision) {
  agent::RateLimits pace;
  pace.set_comm_id(planned.id.value());
  pace.set_revision(revision);
  pace.set_priority(planned.priority);
  pace.set_tenant_rate_bps(planned.tenant_rate_bps);
  pace.set_tenant(planned.tenant);
  for (const PlannedRateLimits::Lane& lane : planned.lanes) {
    agent::LaneRateLimit* out = pace.add_lanes();
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

bool IsFree(const PlannedRateLimits& pace) {
  return pace.lanes.empty() && pace.priority == 0 && !pace.windows && pace.tenant_rate_bps == 0;
}

}  // namespace

std::vector<agent::RateLimits> SentLimits::Update(const std::vector<PlannedRateLimits>& planned,
                                                  bool lifts) {
  std::vector<agent::RateLimits> news;
  std::map<CommId, SentLimit> before = std::exchange(sent_, {});
  for (const PlannedRateLimits& pace : planned) {
    const auto old = before.find(pace.id);
    if (old == before.end() && !lifts && IsFree(pace)) continue;
    if (old != before.end() && old->second.pace == pace) {
      sent_.insert(before.extract(old));
      continue;
    }
    sent_[pace.id] = {pace, ++revision_};
    news.push_back(ToProto(pace, revision_));
  }
  return news;
}

std::vector<agent::RateLimits> SentLimits::LimitsFor(
    const std::string& host, const std::map<CommId, CommunicatorRecord>& communicators) const {
  std::vector<agent::RateLimits> held;
  for (const auto& [id, told] : sent_) {
    const auto known = communicators.find(id);
    if (known == communicators.end()) continue;
    const auto& hosts = known->second.announced.hosts();
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) continue;
    held.push_back(ToProto(told.pace, told.revision));
  }
  return held;
}

}  // namespace mccs
