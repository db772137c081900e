#include "controller/rates/sent_limits.h"

#include <algorithm>
#include <utility>

namespace mccs {
namespace {

agent::v1::RateLimits ToProto(const PlannedRateLimits& planned, uint64_t revision) {
  agent::v1::RateLimits limits;
  limits.set_comm_id(planned.id.value());
  limits.set_revision(revision);
  limits.set_priority(planned.priority);
  limits.set_tenant_rate_bps(planned.tenant_rate_bps);
  limits.set_tenant(planned.tenant);
  for (const PlannedRateLimits::Lane& lane : planned.lanes) {
    agent::v1::LaneRateLimit* out = limits.add_lanes();
    out->set_channel(lane.channel);
    out->set_from(lane.from);
    out->set_to(lane.to);
    out->set_rate_bps(lane.rate_bps);
  }
  if (planned.windows) {
    limits.mutable_send_windows()->set_period_ns(planned.windows->period_ns);
    limits.mutable_send_windows()->set_origin_ns(planned.windows->origin);
    limits.mutable_send_windows()->set_open_ns(planned.windows->open_ns);
  }
  return limits;
}

bool IsFree(const PlannedRateLimits& limits) {
  return limits.lanes.empty() && limits.priority == 0 && !limits.windows &&
         limits.tenant_rate_bps == 0;
}

}  // namespace

std::vector<agent::v1::RateLimits> SentLimits::Update(const std::vector<PlannedRateLimits>& planned,
                                                      bool lifts) {
  std::vector<agent::v1::RateLimits> news;
  std::map<CommId, SentLimit> before = std::exchange(sent_, {});
  for (const PlannedRateLimits& limits : planned) {
    const auto old = before.find(limits.id);
    if (old == before.end() && !lifts && IsFree(limits)) continue;
    if (old != before.end() && old->second.limits == limits) {
      sent_.insert(before.extract(old));
      continue;
    }
    sent_[limits.id] = {limits, ++revision_};
    news.push_back(ToProto(limits, revision_));
  }
  return news;
}

std::vector<agent::v1::RateLimits> SentLimits::LimitsFor(
    const std::string& host, const std::map<CommId, CommunicatorRecord>& communicators) const {
  std::vector<agent::v1::RateLimits> held;
  for (const auto& [id, told] : sent_) {
    const auto known = communicators.find(id);
    if (known == communicators.end()) continue;
    const auto& hosts = known->second.announced.hosts();
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) continue;
    held.push_back(ToProto(told.limits, told.revision));
  }
  return held;
}

}  // namespace mccs
