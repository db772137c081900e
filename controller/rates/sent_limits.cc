#include "controller/rates/sent_limits.h"

#include <algorithm>
#include <utility>

#include "proto/same_message.h"

namespace mccs {
namespace {

bool IsFree(const agent::v1::RateLimits& limits) {
  return limits.lanes().empty() && limits.priority() == 0 && !limits.has_send_windows() &&
         limits.tenant_rate_bps() == 0;
}

// Converts send windows to the clock of a host; removes them if that clock is not known.
agent::v1::RateLimits OnHostClock(agent::v1::RateLimits limits,
                                  const std::optional<ClockReading>& clock) {
  if (!limits.has_send_windows()) return limits;
  if (clock) {
    limits.mutable_send_windows()->set_origin_ns(clock->OnHost(limits.send_windows().origin_ns()));
  } else {
    limits.clear_send_windows();
  }
  return limits;
}

}  // namespace

void PutWindows(const std::optional<PlannedWindows>& windows, agent::v1::RateLimits* limits) {
  limits->clear_send_windows();
  if (!windows) return;
  limits->mutable_send_windows()->set_period_ns(windows->period_ns);
  limits->mutable_send_windows()->set_origin_ns(windows->origin);
  limits->mutable_send_windows()->set_open_ns(windows->open_ns);
}

void SentLimits::SetLimits(std::vector<agent::v1::RateLimits> wanted) {
  std::map<CommId, Entry> before = std::exchange(entries_, {});
  for (agent::v1::RateLimits& limits : wanted) {
    const CommId id(limits.comm_id());
    Entry& entry = entries_[id];
    if (const auto old = before.find(id); old != before.end()) entry = std::move(old->second);
    Want(std::move(limits), &entry);
  }
}

void SentLimits::SetWindows(CommId id, const std::optional<PlannedWindows>& windows) {
  const auto known = entries_.find(id);
  if (known == entries_.end()) return;
  agent::v1::RateLimits limits = known->second.wanted;
  PutWindows(windows, &limits);
  if (IsSameMessage(limits, known->second.wanted)) return;
  Want(std::move(limits), &known->second);
}

void SentLimits::Want(agent::v1::RateLimits limits, Entry* entry) {
  const bool is_needed = entry->revision > 0 || lifts_ || !IsFree(limits);
  const bool is_sent = entry->revision > 0 && IsSameMessage(entry->wanted, limits);
  entry->wanted = std::move(limits);
  if (!is_needed || is_sent) return;
  entry->revision = ++revision_;
  entry->sent_to.clear();
  changed_.insert(CommId(entry->wanted.comm_id()));
}

void SentLimits::LiftOldLimits() {
  if (std::exchange(lifts_, true)) return;
  for (auto& [id, entry] : entries_) Want(entry.wanted, &entry);
}

void SentLimits::OnRegistered(const std::string& host,
                              const std::map<CommId, CommunicatorRecord>& communicators) {
  for (const auto& [id, entry] : entries_) {
    const auto known = communicators.find(id);
    if (known != communicators.end() && known->second.position_of.contains(host))
      changed_.insert(id);
  }
}

void SentLimits::OnAnnounced(CommId id) { changed_.insert(id); }

std::vector<SentLimits::Update> SentLimits::TakeUpdates(const Registry& registry,
                                                        const HostClocks& clocks, MonotonicNs now) {
  std::vector<Update> updates;
  for (const CommId id : std::exchange(changed_, {})) {
    const auto known = entries_.find(id);
    const auto record = registry.communicators().find(id);
    if (known == entries_.end() || record == registry.communicators().end()) continue;  // Ended.
    Entry& entry = known->second;
    if (entry.revision == 0) continue;
    agent::v1::RateLimits limits = entry.wanted;
    limits.set_revision(entry.revision);
    const auto& hosts = record->second.announced.hosts();
    entry.sent_to.resize(static_cast<size_t>(hosts.size()));
    for (int i = 0; i < hosts.size(); ++i) {
      const auto host = registry.hosts().find(hosts[i]);
      if (host == registry.hosts().end() || host->second.state != HostState::kReady) continue;
      AgentKey& sent_to = entry.sent_to[static_cast<size_t>(i)];
      if (std::exchange(sent_to, host->second.agent) == host->second.agent) continue;
      updates.push_back({sent_to, OnHostClock(limits, clocks.Read(hosts[i], now))});
    }
  }
  return updates;
}

}  // namespace mccs
