#include "controller/state/recovered_strategies.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "proto/stored.pb.h"

namespace mccs {
namespace {

std::string Record(CommId id, const CommunicatorRecord& communicator) {
  stored::CommunicatorStrategy record;
  record.set_comm_id(id.value());
  record.set_tenant(communicator.announced.tenant());
  record.set_cgroup(communicator.announced.cgroup());
  *record.mutable_hosts() = communicator.announced.hosts();
  *record.mutable_strategy() = communicator.Newest();
  return record.SerializeAsString();
}

}  // namespace

void RecoveredStrategies::Load(const std::vector<StoredStrategy>& stored) {
  ++revision_;
  for (const StoredStrategy& each : stored) {
    stored_.insert(each.id);
    stored::CommunicatorStrategy record;
    if (!record.ParseFromString(each.record) || record.comm_id() != each.id.value()) continue;
    if (!CheckRings(record.hosts(), record.strategy()).ok()) continue;
    recovered_[each.id] = {.id = each.id,
                           .tenant = record.tenant(),
                           .hosts = {record.hosts().begin(), record.hosts().end()},
                           .strategy = record.strategy(),
                           .cgroup = record.cgroup(),
                           .reconnecting = true};
    returning_.insert(each.id);
  }
}

void RecoveredStrategies::MarkChanged(CommId id) {
  changed_.insert(id);
  revision_ += recovered_.erase(id);
}

bool RecoveredStrategies::DropUnannounced() {
  if (returning_.empty()) return false;
  ++revision_;
  recovered_.clear();
  returning_.clear();
  return true;
}

bool RecoveredStrategies::IsReconnecting(const CommunicatorView& communicator,
                                         const std::vector<HostView>& hosts) const {
  if (!returning_.contains(communicator.id)) return false;
  std::unordered_set<std::string_view> known;
  for (const HostView& host : hosts) known.insert(host.position.host);
  return std::any_of(communicator.hosts.begin(), communicator.hosts.end(),
                     [&](const std::string& name) { return !known.contains(name); });
}

ClusterView RecoveredStrategies::AddRecovered(ClusterView view) const {
  for (CommunicatorView& communicator : view.communicators)
    communicator.reconnecting = IsReconnecting(communicator, view.hosts);
  for (const auto& [id, communicator] : recovered_) view.communicators.push_back(communicator);
  std::sort(view.communicators.begin(), view.communicators.end(),
            [](const CommunicatorView& a, const CommunicatorView& b) { return a.id < b.id; });
  return view;
}

StrategyChanges RecoveredStrategies::TakeChanges(const Registry& registry) {
  StrategyChanges changes;
  for (CommId id : std::exchange(changed_, {})) {
    const auto known = registry.communicators().find(id);
    if (known == registry.communicators().end()) continue;
    changes.put.push_back({id, Record(id, known->second)});
    stored_.insert(id);
  }
  std::erase_if(stored_, [&](CommId id) {
    const bool gone = !registry.communicators().contains(id) && !recovered_.contains(id);
    if (gone) changes.erase.push_back(id);
    return gone;
  });
  return changes;
}

void RecoveredStrategies::RestoreChanges(const StrategyChanges& changes) {
  for (const StoredStrategy& each : changes.put) changed_.insert(each.id);
  stored_.insert(changes.erase.begin(), changes.erase.end());
}

}  // namespace mccs
