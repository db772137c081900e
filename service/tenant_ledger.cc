#include "service/tenant_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace mccs {

TenantLedger::TenantLedger() : state_(std::make_shared<State>()) {}

void TenantLedger::SetTenants(std::vector<TenantEntry> tenants) {
  state_->tenants = std::move(tenants);
  for (const auto& [origin, account] : state_->accounts) account->Update();
}

std::shared_ptr<TenantAccount> TenantLedger::AccountOf(const ProcessOrigin& origin) {
  const auto known = state_->accounts.find(origin);
  if (known != state_->accounts.end()) return known->second->shared_from_this();
  return std::make_shared<TenantAccount>(state_, origin);
}

std::string TenantLedger::NameOf(const ProcessOrigin& origin) const {
  const TenantEntry* tenant = state_->Find(origin);
  return tenant != nullptr ? tenant->name : origin.tenant_name;
}

const TenantEntry* TenantLedger::State::Find(const ProcessOrigin& origin) const {
  return FindMatch(tenants, origin, [](const TenantEntry& tenant) { return &tenant.selector; });
}

TenantAccount::TenantAccount(std::shared_ptr<TenantLedger::State> state,
                             const ProcessOrigin& origin)
    : state_(std::move(state)), origin_(origin) {
  state_->accounts[origin_] = this;
  Update();
}

void TenantAccount::Update() {
  tenant_ = state_->Find(origin_);
  captures_ = tenant_ != nullptr ? CapturesOf(tenant_->selector, origin_) : "";
}

std::string TenantAccount::counted_as() const {
  return captures_.empty() ? name() : absl::StrCat(name(), "/", captures_);
}

std::string TenantAccount::limit_group() const {
  if (tenant_ == nullptr) return IsKnown() ? "" : "users without a Tenant";
  const auto captures = [](const std::string& pattern) { return absl::StrContains(pattern, '{'); };
  if (!std::ranges::any_of(tenant_->selector.cgroups, captures)) return "";
  return absl::StrCat("all of Tenant ", tenant_->name);
}

TenantAccount::~TenantAccount() { state_->accounts.erase(origin_); }

absl::Status TenantAccount::AdmitCommunicator() {
  if (tenant_ != nullptr && tenant_->quotas.communicators.has_value()) {
    const uint64_t held = Sum(&TenantAccount::communicators_);
    if (held >= *tenant_->quotas.communicators) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "Tenant ", counted_as(), " has ", held, held == 1 ? " communicator" : " communicators",
          " on this host, and quotas.communicators is ", *tenant_->quotas.communicators,
          "; destroy unused ones, or ask the operator to raise the quota"));
    }
  }
  ++communicators_;
  return absl::OkStatus();
}

absl::Status TenantAccount::ReserveMemory(uint64_t bytes) {
  if (tenant_ != nullptr && tenant_->quotas.memory_bytes.has_value()) {
    const uint64_t held = Sum(&TenantAccount::memory_bytes_);
    const uint64_t quota = *tenant_->quotas.memory_bytes;
    if (bytes > quota || held > quota - bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "Tenant ", counted_as(), " exceeds quotas.memory on this host: ", FormatBytes(held),
          " are registered, ", FormatBytes(bytes), " were requested, the quota is ",
          FormatBytes(quota),
          "; register fewer or smaller allocations, or ask the operator to raise the quota"));
    }
  }
  memory_bytes_ += bytes;
  return absl::OkStatus();
}

bool TenantAccount::MayStart(MonotonicNs now) const {
  if (!HasOperationQuota() || Sum(&TenantAccount::running_) < *tenant_->quotas.operations)
    return true;
  return now >= StalledAt();
}

MonotonicNs TenantAccount::StalledAt() const {
  MonotonicNs moved = 0;
  for (const auto& [origin, account] : state_->accounts) {
    if (SharesLimitsWith(*account)) moved = std::max(moved, account->last_progress_);
  }
  return moved + kStalledAfterNs;
}

uint64_t TenantAccount::Sum(uint64_t TenantAccount::*of) const {
  uint64_t sum = 0;
  for (const auto& [origin, account] : state_->accounts) {
    if (SharesLimitsWith(*account)) sum += account->*of;
  }
  return sum;
}

}  // namespace mccs
