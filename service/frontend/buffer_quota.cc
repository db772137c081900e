#include "service/frontend/buffer_quota.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

BufferQuota::BufferQuota(const BufferLimits& limits, DaemonCounters* counters)
    : limits_(limits), counters_(counters), use_(std::make_shared<Use>()) {}

absl::StatusOr<std::unique_ptr<BufferShare>> BufferQuota::Take(
    const std::string& tenant, std::shared_ptr<TenantAccount> account,
    std::shared_ptr<TenantResources> budget) {
  const auto known = use_->tenants.find(tenant);
  const uint32_t held = known == use_->tenants.end() ? 0 : known->second.buffers;
  if (held >= limits_.buffers_per_tenant) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "too many buffers: tenant ", tenant, " has registered ", held,
        " with mccsd over all its processes, which is its limit; communicate from "
        "fewer, larger allocations, or raise limits.buffers_per_tenant in mccsd's configuration"));
  }
  BudgetShare mapping(budget, Resource::kMappings);
  MCCS_RETURN_IF_ERROR(mapping.Take());
  std::shared_ptr<TenantCounters> counters = CountersOf(counters_, account.get(), tenant);
  return absl::WrapUnique(new BufferShare(
      use_, tenant, limits_.mapped_bytes_per_tenant, std::move(counters), std::move(account),
      std::move(mapping), BudgetShare(std::move(budget), Resource::kMappedBytes)));
}

BufferShare::BufferShare(std::shared_ptr<BufferQuota::Use> use, std::string tenant,
                         uint64_t bytes_limit, std::shared_ptr<TenantCounters> counters,
                         std::shared_ptr<TenantAccount> account, BudgetShare mapping,
                         BudgetShare mapped_bytes)
    : use_(std::move(use)),
      tenant_(std::move(tenant)),
      bytes_limit_(bytes_limit),
      counters_(std::move(counters)),
      counted_(counters_->buffers),
      account_(std::move(account)),
      mapping_(std::move(mapping)),
      mapped_bytes_(std::move(mapped_bytes)) {
  ++use_->tenants[tenant_].buffers;
}

BufferShare::~BufferShare() {
  auto own = use_->tenants.find(tenant_);
  own->second.bytes -= bytes_;
  counters_->buffer_bytes.Add(-static_cast<int64_t>(bytes_));
  if (account_ != nullptr) account_->ReleaseMemory(memory_bytes_);
  if (--own->second.buffers == 0) use_->tenants.erase(own);
}

absl::Status BufferShare::SetBytes(uint64_t bytes) {
  BufferQuota::TenantUse& own = use_->tenants[tenant_];
  const uint64_t others = own.bytes - bytes_;
  if (bytes > bytes_limit_ || others > bytes_limit_ - bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "tenant ", tenant_, " exceeds limits.mapped_bytes_per_tenant: ", FormatBytes(others),
        " are registered, ", FormatBytes(bytes), " were requested, the limit is ",
        FormatBytes(bytes_limit_), "; free buffers, or raise the limit in mccsd's configuration"));
  }
  if (bytes > bytes_) {
    MCCS_RETURN_IF_ERROR(mapped_bytes_.Take(bytes - bytes_));
  } else {
    mapped_bytes_.Return(bytes_ - bytes);
  }
  own.bytes = others + bytes;
  counters_->buffer_bytes.Add(static_cast<int64_t>(bytes) - static_cast<int64_t>(bytes_));
  bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status BufferShare::AddMemory(uint64_t bytes) {
  if (account_ == nullptr) return absl::OkStatus();
  const absl::Status taken = account_->ReserveMemory(bytes);
  if (taken.ok()) memory_bytes_ = bytes;
  return taken;
}

}  // namespace mccs
