#include "service/host_budget.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace mccs {
namespace {

std::string Format(Resource resource, uint64_t amount) {
  return FactsOf(resource).bytes ? FormatBytes(amount) : std::to_string(amount);
}

// `free` of `limit`: on this host, or for the group's tenants.
absl::Status Exhausted(Resource resource, const std::string& tenant, const std::string& group,
                       uint64_t own, uint64_t wanted, uint64_t free, uint64_t limit) {
  const ResourceFacts& facts = FactsOf(resource);
  return absl::ResourceExhaustedError(absl::StrCat(
      facts.bytes ? "too much " : "too many ", facts.noun, " on this host: tenant ", tenant,
      " has ", Format(resource, own), " and asks for ", Format(resource, wanted), " more, ",
      Format(resource, free), " of ", Format(resource, limit), " are free",
      group.empty() ? "" : absl::StrCat(" for ", group, " together"),
      ", and a tenant may not have more than it leaves free; ", facts.remedy,
      ", or ask the operator to raise ",
      facts.key != nullptr ? absl::StrCat("limits.", facts.key, " in mccsd's configuration")
                           : facts.system));
}

}  // namespace

HostBudget::HostBudget(const HostLimits& limits) : use_(std::make_shared<Use>()) {
  use_->limits = limits;
}

std::shared_ptr<TenantResources> HostBudget::Of(const std::string& tenant, const std::string& group,
                                                std::shared_ptr<TenantCounters> counters) {
  return absl::WrapUnique(new TenantResources(use_, tenant, group, std::move(counters)));
}

TenantResources::TenantResources(std::shared_ptr<HostBudget::Use> use, std::string name,
                                 std::string group, std::shared_ptr<TenantCounters> counters)
    : use_(std::move(use)),
      name_(std::move(name)),
      group_name_(std::move(group)),
      counters_(std::move(counters)),
      tenant_(Join(use_->tenants, name_)),
      group_(group_name_.empty() ? nullptr : Join(use_->groups, group_name_)) {}

TenantResources::~TenantResources() {
  Leave(use_->tenants, name_);
  if (group_ != nullptr) Leave(use_->groups, group_name_);
}

HostBudget::Holder* TenantResources::Join(HostBudget::Holders& holders, const std::string& name) {
  std::unique_ptr<HostBudget::Holder>& holder = holders[name];
  if (holder == nullptr) holder = std::make_unique<HostBudget::Holder>();
  ++holder->budgets;
  return holder.get();
}

void TenantResources::Leave(HostBudget::Holders& holders, const std::string& name) {
  const auto holder = holders.find(name);
  if (--holder->second->budgets == 0) holders.erase(holder);
}

TenantResources::Part TenantResources::PartOf(Resource resource) const {
  const auto index = static_cast<size_t>(resource);
  const uint64_t limit = use_->limits[resource];
  const uint64_t all = use_->held[index];  // Take keeps it ≤ limit
  if (group_ == nullptr) return {.limit = limit, .held = all};
  // Half of what the other groups and tenants leave.
  const uint64_t held = group_->held[index];
  return {.limit = (limit - (all - held)) / 2, .held = held};
}

absl::Status TenantResources::Take(Resource resource, uint64_t amount) {
  const auto index = static_cast<size_t>(resource);
  uint64_t& own = tenant_->held[index];
  const auto [limit, held] = PartOf(resource);
  const uint64_t free = limit > held ? limit - held : 0;
  if (amount > free || amount > free - amount || own > free - amount - amount) {
    counters_->refused[index].Add(1);
    return Exhausted(resource, name_, group_name_, own, amount, free, limit);
  }
  own += amount;
  use_->held[index] += amount;
  if (group_ != nullptr) group_->held[index] += amount;
  counters_->held[index].Add(static_cast<int64_t>(amount));
  return absl::OkStatus();
}

std::optional<uint64_t> TenantResources::Lacking(Resource resource, uint64_t amount) const {
  const uint64_t own = held(resource);
  const auto [limit, held] = PartOf(resource);
  const uint64_t others = held - own;
  if (others > limit || amount > (limit - others) / 2) return std::nullopt;
  const uint64_t may_keep = (limit - others) / 2 - amount;
  return own > may_keep ? own - may_keep : 0;
}

void TenantResources::Return(Resource resource, uint64_t amount) {
  const auto index = static_cast<size_t>(resource);
  tenant_->held[index] -= amount;
  if (group_ != nullptr) group_->held[index] -= amount;
  use_->held[index] -= amount;
  counters_->held[index].Add(-static_cast<int64_t>(amount));
}

BudgetShare::BudgetShare(BudgetShare&& other) noexcept
    : tenant_(std::move(other.tenant_)),
      resource_(other.resource_),
      held_(std::exchange(other.held_, 0)) {}

BudgetShare& BudgetShare::operator=(BudgetShare&& other) noexcept {
  ReturnAll();
  tenant_ = std::move(other.tenant_);
  resource_ = other.resource_;
  held_ = std::exchange(other.held_, 0);
  return *this;
}

absl::Status BudgetShare::Take(uint64_t amount) {
  if (tenant_ != nullptr) {
    if (absl::Status taken = tenant_->Take(resource_, amount); !taken.ok()) return taken;
  }
  held_ += amount;
  return absl::OkStatus();
}

std::optional<uint64_t> BudgetShare::Lacking(uint64_t amount) const {
  return tenant_ != nullptr ? tenant_->Lacking(resource_, amount) : 0;
}

void BudgetShare::Return(uint64_t amount) {
  MCCS_CHECK(amount <= held_);
  held_ -= amount;
  if (tenant_ != nullptr && amount > 0) tenant_->Return(resource_, amount);
}

}  // namespace mccs
