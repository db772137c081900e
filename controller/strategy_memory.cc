#include "controller/strategy_memory.h"

#include <algorithm>
#include <utility>

#include "controller/ring_check.h"
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

void StrategyMemory::Remember(const std::vector<StoredStrategy>& stored) {
  ++revision_;
  for (const StoredStrategy& each : stored) {
    kept_.insert(each.id);
    stored::CommunicatorStrategy record;
    if (!record.ParseFromString(each.record) || record.comm_id() != each.id.value()) continue;
    if (!CheckRings(record.hosts(), record.strategy()).ok()) continue;
    remembered_[each.id] = {.id = each.id,
                            .tenant = record.tenant(),
                            .hosts = {record.hosts().begin(), record.hosts().end()},
                            .strategy = record.strategy(),
                            .cgroup = record.cgroup(),
                            .away = true};
    returning_.insert(each.id);
  }
}

void StrategyMemory::Touch(CommId id) {
  touched_.insert(id);
  revision_ += remembered_.erase(id);
}

bool StrategyMemory::ForgetTheUnannounced() {
  if (returning_.empty()) return false;
  ++revision_;
  remembered_.clear();
  returning_.clear();
  return true;
}

bool StrategyMemory::IsAway(const CommunicatorView& communicator,
                            const std::vector<HostView>& hosts) const {
  if (!returning_.contains(communicator.id)) return false;
  return std::any_of(
      communicator.hosts.begin(), communicator.hosts.end(), [&](const std::string& name) {
        return std::none_of(hosts.begin(), hosts.end(),
                            [&](const HostView& host) { return host.position.host == name; });
      });
}

ClusterView StrategyMemory::With(ClusterView view) const {
  for (CommunicatorView& communicator : view.communicators)
    communicator.away = IsAway(communicator, view.hosts);
  for (const auto& [id, communicator] : remembered_) view.communicators.push_back(communicator);
  std::sort(view.communicators.begin(), view.communicators.end(),
            [](const CommunicatorView& a, const CommunicatorView& b) { return a.id < b.id; });
  return view;
}

StrategyChanges StrategyMemory::TakeChanges(const Registry& registry) {
  StrategyChanges changes;
  for (CommId id : std::exchange(touched_, {})) {
    const auto known = registry.communicators().find(id);
    if (known == registry.communicators().end()) continue;
    changes.put.push_back({id, Record(id, known->second)});
    kept_.insert(id);
  }
  std::erase_if(kept_, [&](CommId id) {
    const bool gone = !registry.communicators().contains(id) && !remembered_.contains(id);
    if (gone) changes.erase.push_back(id);
    return gone;
  });
  return changes;
}

void StrategyMemory::GiveBack(const StrategyChanges& changes) {
  for (const StoredStrategy& each : changes.put) touched_.insert(each.id);
  kept_.insert(changes.erase.begin(), changes.erase.end());
}

}  // namespace mccs
