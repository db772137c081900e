#include "controller/state/rollouts.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace mccs {

void ConvergenceTimes::Add(double seconds) {
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  ++counts[static_cast<size_t>(bucket)];
  sum_seconds += seconds;
}

uint64_t ConvergenceTimes::count() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

void Rollouts::OnProposed(CommId id, const CommunicatorRecord& record,
                          const strategy::Strategy& strategy, MonotonicNs now) {
  ++by_policy_[strategy.origin().substr(0, strategy.origin().find(' '))];
  superseded_ += pending_.count(id);
  pending_[id] = {.epoch = strategy.epoch(),
                  .since = now,
                  .awaited = {record.announced.hosts().begin(), record.announced.hosts().end()},
                  .leader = record.leader};
}

void Rollouts::OnReported(CommId id, const std::string& host, const agent::v1::Report& report,
                          MonotonicNs now) {
  const auto known = pending_.find(id);
  if (known == pending_.end()) return;
  Pending& pending = known->second;
  if (report.epoch() >= pending.epoch) {
    pending.awaited.erase(host);
    if (!pending.awaited.empty()) return;
    times_.Add(static_cast<double>(now - pending.since) / kNsPerSec);
    pending_.erase(known);
    return;
  }
  if (host != pending.leader || report.rejected_epoch() < pending.epoch) return;
  ++dropped_;
  pending_.erase(known);
}

void Rollouts::Prune(const std::map<CommId, CommunicatorRecord>& known) {
  std::erase_if(pending_, [&](const auto& entry) { return !known.contains(entry.first); });
}

const Rollouts::Pending* Rollouts::FindPending(CommId id) const {
  const auto known = pending_.find(id);
  return known != pending_.end() ? &known->second : nullptr;
}

}  // namespace mccs
