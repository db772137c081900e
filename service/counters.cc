#include "service/counters.h"

#include <algorithm>
#include <vector>

#include "service/error_class.h"
#include "service/tenant_ledger.h"

namespace mccs {
namespace {

// Visits all counters in a fixed order, so that two objects can be added.
template <typename Counters, typename Visit>
void ForEachCounter(Counters& counters, const Visit& visit) {
  for (auto& work : counters.work) {
    visit(work.operations);
    visit(work.bytes);
  }
  for (auto& failures : counters.failures) visit(failures);
  for (auto* lanes : {&counters.sent, &counters.received}) {
    visit(lanes->bytes);
    visit(lanes->reconnects);
    visit(lanes->copied_bytes);
    for (auto& wait : lanes->wait_ns) visit(wait);
  }
  visit(counters.changes_done);
  visit(counters.changes_rejected);
  for (auto& refused : counters.refused) visit(refused);
  visit(counters.turn_cost);
}

// Adds take(x) for each x of `from`.
template <typename Counters, typename Take>
void AddCounters(Counters& from, TenantCounters* sum, const Take& take) {
  std::vector<Counter*> sums;
  ForEachCounter(*sum, [&](Counter& counter) { sums.push_back(&counter); });
  auto next = sums.begin();
  ForEachCounter(from, [&](auto& counter) { (*next++)->Add(take(counter)); });
}

}  // namespace

const char* FailureName(size_t error_class) {
  // In the order of wire::ErrorClass.
  constexpr const char* kNames[kFailureClasses] = {
      "none", "invalid_argument", "invalid_usage", "system", "remote", "internal", "aborted"};
  return error_class < kFailureClasses ? kNames[error_class] : "unknown";
}

size_t FailureClassOf(const absl::Status& why) {
  const auto error_class = static_cast<size_t>(ToErrorClass(why));
  static_assert(static_cast<size_t>(wire::ErrorClass::kAborted) + 1 == kFailureClasses);
  return error_class;
}

void TenantCounters::EnterEpoch(uint64_t epoch) {
  ++epochs_[epoch];
  highest_epoch.Set(static_cast<int64_t>(epochs_.rbegin()->first));
}

void TenantCounters::LeaveEpoch(uint64_t epoch) {
  const auto known = epochs_.find(epoch);
  if (known == epochs_.end()) return;
  if (--known->second == 0) epochs_.erase(known);
  highest_epoch.Set(epochs_.empty() ? 0 : static_cast<int64_t>(epochs_.rbegin()->first));
}

void TenantCounters::AddTo(TenantCounters* sum) const {
  AddCounters(*this, sum, [](const Counter& counter) { return counter.value(); });
  for (const auto gauge :
       {&TenantCounters::forming, &TenantCounters::active, &TenantCounters::failed,
        &TenantCounters::sessions, &TenantCounters::buffers, &TenantCounters::buffer_bytes}) {
    (sum->*gauge).Add((this->*gauge).value());
  }
  for (size_t r = 0; r < kResources; ++r) sum->held[r].Add(held[r].value());
  sum->highest_epoch.Set(std::max(sum->highest_epoch.value(), highest_epoch.value()));
}

void TenantCounters::MoveCountersTo(TenantCounters* sum) {
  AddCounters(*this, sum, [](Counter& counter) { return counter.Take(); });
}

std::string DaemonCounters::ReserveName(const std::string& name) {
  const bool room = settled_.contains(name) || settled_.size() < kMaxTenants;
  const std::string place = room ? name : kOtherTenants;
  settled_[place];
  return place;
}

std::shared_ptr<TenantCounters> DaemonCounters::Of(const ProcessOrigin& origin,
                                                   const std::string& name) {
  // No lock: this thread is the only writer.
  const auto known = entries_.find(origin);
  if (known != entries_.end()) return known->second.counters;
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](auto& entry) {
    auto& [place, counters] = entry.second;
    if (counters.use_count() > 1) return false;
    counters->MoveCountersTo(&settled_[place]);
    return true;
  });
  Entry& entry = entries_[origin];
  entry = {ReserveName(name), std::make_shared<TenantCounters>()};
  return entry.counters;
}

void DaemonCounters::Rename(const std::function<std::string(const ProcessOrigin&)>& name_of) {
  const std::lock_guard lock(mutex_);
  for (auto& [origin, entry] : entries_) {
    const std::string name = ReserveName(name_of(origin));
    if (name == entry.name) continue;
    entry.counters->MoveCountersTo(&settled_[entry.name]);
    entry.name = name;
  }
}

std::map<std::string, std::shared_ptr<const TenantCounters>> DaemonCounters::Tenants() const {
  std::map<std::string, std::shared_ptr<TenantCounters>> sums;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, counters] : settled_) {
      auto& sum = sums[name] = std::make_shared<TenantCounters>();
      counters.AddTo(sum.get());
    }
    for (const auto& [origin, entry] : entries_) entry.counters->AddTo(sums[entry.name].get());
  }
  return {sums.begin(), sums.end()};
}

std::shared_ptr<TenantCounters> CountersOf(DaemonCounters* all, const TenantAccount* account,
                                           const std::string& tenant) {
  if (all == nullptr) return std::make_shared<TenantCounters>();
  return account != nullptr ? all->Of(account->origin(), account->name()) : all->Of(tenant);
}

}  // namespace mccs
