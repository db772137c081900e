#include "service/transport/rdma/registered_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "service/transport/rdma/peer_pair.h"

namespace mccs {

RegisteredMemory::~RegisteredMemory() {
  tokens_.push_back(std::move(share_));
  tokens_.push_back(std::move(pin_));
  domain_->jobs().Destroy(domain_->tenant(), std::move(verbs_), std::move(tokens_));
}

void RegisteredMemory::AddBinding(const std::shared_ptr<WindowBinding>& binding) {
  std::erase_if(bindings_, [](const auto& known) { return known.expired(); });
  bindings_.push_back(binding);
}

namespace {

// Of memory that no NIC can reach.
absl::Status NoDmaBuf(const Region& region) {
  return absl::FailedPreconditionError(absl::StrCat("memory on a GPU has no dma-buf",
                                                    region.no_dma_buf().empty() ? "" : ": ",
                                                    region.no_dma_buf()));
}

}  // namespace

// Counts in the usage of a NIC until it is destroyed.
struct MemoryTable::Share {
  Share(std::shared_ptr<Usage> its_usage, uint64_t its_bytes)
      : usage(std::move(its_usage)), bytes(its_bytes) {
    ++usage->regions;
    usage->bytes += bytes;
  }
  ~Share() {
    --usage->regions;
    usage->bytes -= bytes;
  }
  Share(const Share&) = delete;

  const std::shared_ptr<Usage> usage;
  const uint64_t bytes;
};

// A part of the budget. May outlive the table.
struct MemoryTable::Pin {
  Pin(BudgetShare its_share, std::shared_ptr<uint64_t> its_retries)
      : share(std::move(its_share)), retries(std::move(its_retries)) {}
  ~Pin() { ++*retries; }
  Pin(const Pin&) = delete;

  const BudgetShare share;
  const std::shared_ptr<uint64_t> retries;
};

std::shared_ptr<RegisteredMemory> MemoryTable::Use(const Region& region,
                                                   const std::shared_ptr<PairDomain>& domain,
                                                   Waiter& waiter) {
  std::shared_ptr<RegisteredMemory>& known = regions_[region.id()][domain.get()];
  const bool retries =
      known != nullptr && known->refused_at_.has_value() && *known->refused_at_ != *retries_;
  if (known == nullptr || retries) {
    std::shared_ptr<RegisteredMemory> started = Start(region, domain);
    regions_[region.id()][domain.get()] = started;  // Start may have evicted others
    if (started->pending()) waiting_.insert(&waiter);
    return started;
  }
  if (known->last_use_ != 0) {
    Unlist(*known);
    List(region.id(), *known);
  }
  if (known->pending()) waiting_.insert(&waiter);
  return known;
}

std::shared_ptr<RegisteredMemory> MemoryTable::Start(const Region& region,
                                                     const std::shared_ptr<PairDomain>& domain) {
  auto memory = std::make_shared<RegisteredMemory>(domain);
  memory->memory_ = MemoryOf(region);
  const bool is_tenants = region.kind() == RegionKind::kTenant;
  const Region::DmaBuf* const dma_buf = region.dma_buf();
  if (!region.is_mapped() && dma_buf == nullptr) {
    memory->status_ = NoDmaBuf(region);
    return memory;
  }
  absl::Status room = MakeRoom(*domain, memory->memory_.bytes);
  if (room.ok() && is_tenants && region.is_mapped()) room = TakePin(region, *memory);
  if (!room.ok()) {
    memory->status_ = std::move(room);
    memory->refused_at_ = *retries_;
    return memory;
  }
  std::shared_ptr<Usage>& usage = usage_[&domain->nic()];
  if (usage == nullptr) usage = std::make_shared<Usage>();
  memory->share_ = std::make_shared<Share>(usage, memory->memory_.bytes);
  List(region.id(), *memory);
  auto made = std::make_shared<absl::StatusOr<std::unique_ptr<MemoryRegion>>>();
  MemoryToRegister wanted{.address = memory->memory_.base, .bytes = memory->memory_.bytes};
  if (dma_buf != nullptr) {
    wanted.dma_buf = dma_buf->descriptor;
    wanted.dma_buf_offset = dma_buf->offset;
  }
  const auto make = [wanted](PairDomain& made_in) -> absl::StatusOr<std::unique_ptr<MemoryRegion>> {
    MCCS_ASSIGN_OR_RETURN(ProtectionDomain * verbs, made_in.Open());
    return verbs->Register(wanted);
  };
  domain->jobs().Run(
      is_tenants ? VerbsJobs::Kind::kRegister : VerbsJobs::Kind::kConnect, domain->tenant(),
      [made, make, raw = domain.get()] { *made = make(*raw); },
      [this, made, memory] {
        memory->status_ = made->status();
        // kUnavailable means pending.
        if (absl::IsUnavailable(memory->status_)) {
          memory->status_ = absl::InternalError(memory->status_.message());
        }
        if (made->ok()) {
          memory->verbs_ = *std::move(*made);
        } else {
          memory->share_.reset();
          memory->pin_.reset();
          Unlist(*memory);
        }
        for (Waiter* const waiter : std::exchange(waiting_, {})) waiter->OnRegistered();
      });
  return memory;
}

void MemoryTable::List(RegionId id, RegisteredMemory& memory) {
  memory.last_use_ = ++uses_;
  const std::pair key(id, memory.domain_.get());
  by_use_.emplace(uses_, key);
  if (memory.tenant_ != nullptr) memory.tenant_->registrations.emplace(uses_, key);
}

void MemoryTable::Unlist(RegisteredMemory& memory) {
  if (memory.last_use_ == 0) return;
  by_use_.erase(memory.last_use_);
  if (memory.tenant_ != nullptr) memory.tenant_->registrations.erase(memory.last_use_);
  memory.last_use_ = 0;
}

absl::Status MemoryTable::MakeRoom(const PairDomain& domain, uint64_t bytes) {
  const VerbsNic& nic = domain.nic();
  for (;;) {
    const Usage usage = UsageOf(nic);
    if (usage.regions < limits_.regions_per_nic && usage.bytes + bytes <= limits_.bytes_per_nic) {
      return absl::OkStatus();
    }
    const auto is_of_nic = [&](const RegisteredMemory& known) {
      return &known.domain_->nic() == &nic;
    };
    if (EvictOne(by_use_, is_of_nic) == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("RDMA device ", nic.attributes().device, ": cannot register ",
                       FormatBytes(bytes), " more, with ", usage.regions, " regions of ",
                       FormatBytes(usage.bytes), " in use; at most ", limits_.regions_per_nic,
                       " of ", FormatBytes(limits_.bytes_per_nic), " are allowed"));
    }
  }
}

absl::Status MemoryTable::TakePin(const Region& region, RegisteredMemory& memory) {
  const std::shared_ptr<TenantResources> budget = region.budget();
  if (budget == nullptr) return absl::OkStatus();
  absl::erase_if(tenants_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<PinningTenant>& known = tenants_[budget->name()];
  std::shared_ptr<PinningTenant> tenant = known.lock();
  if (tenant == nullptr) known = tenant = std::make_shared<PinningTenant>();
  BudgetShare share(budget, Resource::kPinnedMemory);
  const uint64_t bytes = memory.memory_.bytes;
  const uint64_t lacking = share.Lacking(bytes).value_or(0);
  if (lacking > 0 && Unpin(*tenant, lacking)) {
    return absl::ResourceExhaustedError(
        "registrations that the tenant does not use have to end before");
  }
  MCCS_RETURN_IF_ERROR(share.Take(bytes));
  memory.tenant_ = std::move(tenant);
  memory.pin_ = std::make_shared<Pin>(std::move(share), retries_);
  return absl::OkStatus();
}

// Their pages stay pinned until the driver has ended them, so a tenant cannot get more by evictions
// that wait. A region that was refused has room only then.
bool MemoryTable::Unpin(PinningTenant& tenant, uint64_t bytes) {
  if (!tenant.evicted.expired()) return true;
  const auto all_evicted = std::make_shared<char>();
  tenant.evicted = all_evicted;
  uint64_t unpinned = 0;
  for (int i = 0; i < kEvictedAtOnce && unpinned < bytes; ++i) {
    const std::shared_ptr<RegisteredMemory> evicted = EvictOne(tenant.registrations);
    if (evicted == nullptr) break;
    evicted->tokens_.push_back(all_evicted);
    unpinned += evicted->memory_.bytes;
  }
  return unpinned > 0;
}

std::shared_ptr<RegisteredMemory> MemoryTable::EvictOne(
    const RegistrationsByUse& among, const std::function<bool(const RegisteredMemory&)>& may_end) {
  int left = kCheckedPerEviction;
  for (const auto& [use, key] : among) {
    if (left-- == 0) return nullptr;
    const auto [id, domain] = key;
    const auto by_domain = regions_.find(id);
    const std::shared_ptr<RegisteredMemory> memory = by_domain->second.at(domain);
    constexpr long kUnused = 2;  // here and in the table
    if (!memory->ready() || memory.use_count() != kUnused) continue;
    if (may_end != nullptr && !may_end(*memory)) continue;
    End(memory);
    memory->share_.reset();
    const auto tokens = std::make_shared<Tokens>();
    memory->tokens_.push_back(tokens);
    std::vector<std::weak_ptr<Tokens>>& of_region = evicted_[id];
    std::erase_if(of_region, [](const auto& known) { return known.expired(); });
    of_region.push_back(tokens);
    by_domain->second.erase(domain);
    if (by_domain->second.empty()) regions_.erase(by_domain);
    return memory;
  }
  return nullptr;
}

// The table knows it no longer. Windows that are bound to it are its users.
void MemoryTable::End(const std::shared_ptr<RegisteredMemory>& memory) {
  RetryRefused();
  Unlist(*memory);
  for (const std::weak_ptr<WindowBinding>& known : std::exchange(memory->bindings_, {})) {
    if (const std::shared_ptr<WindowBinding> binding = known.lock()) binding->Revoke();
  }
}

void MemoryTable::RetryRefused() {
  ++*retries_;
  for (Waiter* const waiter : std::exchange(awaiting_room_, {})) waiter->OnRegistered();
}

void MemoryTable::Forget(const Region& region, std::shared_ptr<void> token) {
  if (const auto evicted = evicted_.extract(region.id()); !evicted.empty()) {
    for (const std::weak_ptr<Tokens>& known : evicted.mapped()) {
      if (const std::shared_ptr<Tokens> tokens = known.lock()) tokens->push_back(token);
    }
  }
  const auto known = regions_.find(region.id());
  if (known == regions_.end()) return;
  const ByDomain by_domain = std::move(known->second);
  regions_.erase(known);
  for (const auto& [domain, memory] : by_domain) {
    memory->tokens_.push_back(token);
    End(memory);
  }
}

MemoryTable::Usage MemoryTable::UsageOf(const VerbsNic& nic) const {
  const auto found = usage_.find(&nic);
  return found == usage_.end() ? Usage{} : *found->second;
}

}  // namespace mccs
