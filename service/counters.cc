#include "service/counters.h"

#include "service/error_class.h"

namespace mccs {

const char* NameOfFailure(size_t error_class) {
  switch (static_cast<wire::ErrorClass>(error_class)) {
    case wire::ErrorClass::kNone:
      return "none";
    case wire::ErrorClass::kInvalidArgument:
      return "invalid_argument";
    case wire::ErrorClass::kInvalidUsage:
      return "invalid_usage";
    case wire::ErrorClass::kSystem:
      return "system";
    case wire::ErrorClass::kRemote:
      return "remote";
    case wire::ErrorClass::kInternal:
      return "internal";
    case wire::ErrorClass::kAborted:
      return "aborted";
  }
  return "unknown";
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

std::shared_ptr<TenantCounters> DaemonCounters::Of(const std::string& tenant) {
  // Its only writer looks without the lock.
  auto known = tenants_.find(tenant);
  if (known == tenants_.end() && tenants_.size() >= kMaxTenants) {
    known = tenants_.find(kOtherTenants);
  }
  if (known != tenants_.end()) return known->second;
  const std::string name = tenants_.size() >= kMaxTenants ? kOtherTenants : tenant;
  const std::lock_guard lock(mutex_);
  return tenants_[name] = std::make_shared<TenantCounters>();
}

std::map<std::string, std::shared_ptr<const TenantCounters>> DaemonCounters::Tenants() const {
  const std::lock_guard lock(mutex_);
  return {tenants_.begin(), tenants_.end()};
}

std::shared_ptr<TenantCounters> CountersOf(DaemonCounters* all, const std::string& tenant) {
  return all != nullptr ? all->Of(tenant) : std::make_shared<TenantCounters>();
}

}  // namespace mccs
