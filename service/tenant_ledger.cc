#include "service/tenant_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace mccs {

TenantLedger::TenantLedger() : books_(std::make_shared<Books>()) {}

void TenantLedger::SetTenants(std::vector<TenantEntry> tenants) {
  books_->tenants = std::move(tenants);
  for (const auto& [origin, account] : books_->accounts) account->tenant_ = books_->Find(origin);
}

std::shared_ptr<TenantAccount> TenantLedger::AccountOf(const ProcessOrigin& origin) {
  const auto known = books_->accounts.find(origin);
  if (known != books_->accounts.end()) return known->second->shared_from_this();
  return std::make_shared<TenantAccount>(books_, origin);
}

std::string TenantLedger::NameOf(const ProcessOrigin& origin) const {
  const TenantEntry* tenant = books_->Find(origin);
  return tenant != nullptr ? tenant->name : origin.called;
}

size_t TenantLedger::accounts() const { return books_->accounts.size(); }

const TenantEntry* TenantLedger::Books::Find(const ProcessOrigin& origin) const {
  return FindClaimant(tenants, origin, [](const TenantEntry& tenant) { return &tenant.who; });
}

TenantAccount::TenantAccount(std::shared_ptr<TenantLedger::Books> books,
                             const ProcessOrigin& origin)
    : books_(std::move(books)), origin_(origin), tenant_(books_->Find(origin)) {
  books_->accounts[origin_] = this;
}

TenantAccount::~TenantAccount() { books_->accounts.erase(origin_); }

absl::Status TenantAccount::TakeCommunicator() {
  if (tenant_ != nullptr && tenant_->quotas.communicators.has_value()) {
    const uint64_t held = Sum(&TenantAccount::communicators_);
    if (held >= *tenant_->quotas.communicators) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "Tenant ", tenant_->name, " has ", held, held == 1 ? " communicator" : " communicators",
          " on this host, and its quota is ", *tenant_->quotas.communicators,
          ": destroy some that are not needed, or have the operator raise quotas.communicators of "
          "the Tenant"));
    }
  }
  ++communicators_;
  return absl::OkStatus();
}

absl::Status TenantAccount::TakeMemory(uint64_t bytes) {
  if (tenant_ != nullptr && tenant_->quotas.memory_bytes.has_value()) {
    const uint64_t held = Sum(&TenantAccount::memory_bytes_);
    const uint64_t quota = *tenant_->quotas.memory_bytes;
    if (bytes > quota || held > quota - bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "Tenant ", tenant_->name, " has buffers of ", FormatBytes(held),
          " with mccsd on this host; ", FormatBytes(bytes), " more exceed its quota of ",
          FormatBytes(quota),
          ": communicate from fewer, smaller allocations, or have the operator raise quotas.memory "
          "of the Tenant"));
    }
  }
  memory_bytes_ += bytes;
  return absl::OkStatus();
}

bool TenantAccount::MayWork(MonotonicNs now) const {
  if (!CountsWork() || Sum(&TenantAccount::working_) < *tenant_->quotas.operations) return true;
  return now >= StandsStillAt();
}

MonotonicNs TenantAccount::StandsStillAt() const {
  MonotonicNs moved = 0;
  for (const auto& [origin, account] : books_->accounts) {
    if (account->tenant_ == tenant_) moved = std::max(moved, account->moved_);
  }
  return moved + kStandstillNs;
}

uint64_t TenantAccount::Sum(uint64_t TenantAccount::*of) const {
  uint64_t sum = 0;
  for (const auto& [origin, account] : books_->accounts) {
    if (account->tenant_ == tenant_) sum += account->*of;
  }
  return sum;
}

}  // namespace mccs
