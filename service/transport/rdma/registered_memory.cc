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

// Counts in the usage of a NIC, and of a tenant unless that is null, until it is destroyed.
struct MemoryTable::Share {
  Share(std::shared_ptr<Usage> its_usage, std::shared_ptr<uint64_t> its_tenant, uint64_t its_bytes)
      : usage(std::move(its_usage)), tenant(std::move(its_tenant)), bytes(its_bytes) {
    ++usage->regions;
    usage->bytes += bytes;
    if (tenant != nullptr) *tenant += bytes;
  }
  ~Share() {
    --usage->regions;
    usage->bytes -= bytes;
    if (tenant != nullptr) *tenant -= bytes;
  }
  Share(const Share&) = delete;

  const std::shared_ptr<Usage> usage;
  const std::shared_ptr<uint64_t> tenant;
  const uint64_t bytes;
};

std::shared_ptr<RegisteredMemory> MemoryTable::Use(const Region& region,
                                                   const std::shared_ptr<PairDomain>& domain,
                                                   Waiter& waiter) {
  std::shared_ptr<RegisteredMemory>& known = regions_[region.id()][domain.get()];
  const bool retries =
      known != nullptr && known->refused_at_.has_value() && *known->refused_at_ != retries_;
  if (known == nullptr || retries) {
    std::shared_ptr<RegisteredMemory> started = Start(region, domain);
    regions_[region.id()][domain.get()] = started;  // Start may have evicted others
    if (started->pending()) waiting_.insert(&waiter);
    return started;
  }
  if (known->last_use_ != 0) {
    by_use_.erase(known->last_use_);
    known->last_use_ = ++uses_;
    by_use_.emplace(uses_, std::pair(region.id(), domain.get()));
  }
  if (known->pending()) waiting_.insert(&waiter);
  return known;
}

std::shared_ptr<RegisteredMemory> MemoryTable::Start(const Region& region,
                                                     const std::shared_ptr<PairDomain>& domain) {
  auto memory = std::make_shared<RegisteredMemory>(domain);
  memory->memory_ = MemoryOf(region);
  const bool is_tenants = region.kind() == RegionKind::kTenant;
  memory->is_counted_ = is_tenants && region.is_mapped();
  const Region::DmaBuf* const dma_buf = region.dma_buf();
  if (!region.is_mapped() && dma_buf == nullptr) {
    memory->status_ = NoDmaBuf(region);
    return memory;
  }
  if (absl::Status room = MakeRoom(region, *domain, memory->memory_.bytes); !room.ok()) {
    memory->status_ = std::move(room);
    memory->refused_at_ = retries_;
    return memory;
  }
  std::shared_ptr<Usage>& usage = usage_[&domain->nic()];
  if (usage == nullptr) usage = std::make_shared<Usage>();
  std::shared_ptr<uint64_t> tenant;
  if (memory->is_counted_) {
    absl::erase_if(tenants_, [](const auto& entry) { return entry.second.use_count() == 1; });
    std::shared_ptr<uint64_t>& bytes = tenants_[domain->tenant()];
    if (bytes == nullptr) bytes = std::make_shared<uint64_t>(0);
    tenant = bytes;
  }
  memory->share_ = std::make_shared<Share>(usage, std::move(tenant), memory->memory_.bytes);
  memory->last_use_ = ++uses_;
  by_use_.emplace(uses_, std::pair(region.id(), domain.get()));
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
          if (memory->last_use_ != 0) by_use_.erase(std::exchange(memory->last_use_, 0));
        }
        for (Waiter* const waiter : std::exchange(waiting_, {})) waiter->OnRegistered();
      });
  return memory;
}

absl::Status MemoryTable::MakeRoom(const Region& region, const PairDomain& domain, uint64_t bytes) {
  const VerbsNic& nic = domain.nic();
  for (;;) {
    const Usage usage = UsageOf(nic);
    if (usage.regions < limits_.regions_per_nic && usage.bytes + bytes <= limits_.bytes_per_nic) {
      break;
    }
    if (!EvictOne([&](const RegisteredMemory& known) { return &known.domain_->nic() == &nic; })) {
      return absl::ResourceExhaustedError(
          absl::StrCat("RDMA device ", nic.attributes().device, ": cannot register ",
                       FormatBytes(bytes), " more, with ", usage.regions, " regions of ",
                       FormatBytes(usage.bytes), " in use; at most ", limits_.regions_per_nic,
                       " of ", FormatBytes(limits_.bytes_per_nic), " are allowed"));
    }
  }
  if (region.kind() != RegionKind::kTenant || !region.is_mapped()) return absl::OkStatus();
  const std::string& tenant = domain.tenant();
  while (BytesOf(tenant) + bytes > limits_.bytes_per_tenant) {
    const auto is_counted = [&](const RegisteredMemory& known) {
      return known.is_counted_ && known.domain_->tenant() == tenant;
    };
    if (EvictOne(is_counted)) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "RDMA device ", nic.attributes().device, ": cannot register ", FormatBytes(bytes),
        " more for Tenant \"", tenant, "\", with ", FormatBytes(BytesOf(tenant)),
        " in use; at most ", FormatBytes(limits_.bytes_per_tenant), " are allowed"));
  }
  return absl::OkStatus();
}

// Forgets one of the least recently used regions, if nothing uses it.
bool MemoryTable::EvictOne(const std::function<bool(const RegisteredMemory&)>& may_end) {
  int left = kCheckedPerEviction;
  for (const auto& [use, key] : by_use_) {
    if (left-- == 0) return false;
    const auto [id, domain] = key;
    const auto by_domain = regions_.find(id);
    const std::shared_ptr<RegisteredMemory> memory = by_domain->second.at(domain);
    constexpr long kUnused = 2;  // here and in the table
    if (!memory->ready() || memory.use_count() != kUnused || !may_end(*memory)) continue;
    End(memory);
    memory->share_.reset();
    const auto tokens = std::make_shared<Tokens>();
    memory->tokens_.push_back(tokens);
    std::vector<std::weak_ptr<Tokens>>& of_region = evicted_[id];
    std::erase_if(of_region, [](const auto& known) { return known.expired(); });
    of_region.push_back(tokens);
    by_domain->second.erase(domain);
    if (by_domain->second.empty()) regions_.erase(by_domain);
    return true;
  }
  return false;
}

// The table knows it no longer. Windows that are bound to it are its users.
void MemoryTable::End(const std::shared_ptr<RegisteredMemory>& memory) {
  RetryRefused();
  if (memory->last_use_ != 0) by_use_.erase(std::exchange(memory->last_use_, 0));
  for (const std::weak_ptr<WindowBinding>& known : std::exchange(memory->bindings_, {})) {
    if (const std::shared_ptr<WindowBinding> binding = known.lock()) binding->Revoke();
  }
}

void MemoryTable::RetryRefused() {
  ++retries_;
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

uint64_t MemoryTable::BytesOf(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : *found->second;
}

MemoryTable::Usage MemoryTable::UsageOf(const VerbsNic& nic) const {
  const auto found = usage_.find(&nic);
  return found == usage_.end() ? Usage{} : *found->second;
}

}  // namespace mccs
