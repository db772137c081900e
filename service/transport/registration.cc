#include "service/transport/registration.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/units.h"

namespace mccs {

RegionRegistration::~RegionRegistration() {
  if (entry_ != nullptr) table_->Drop(entry_);
}

std::unique_ptr<RegionRegistration> RegistrationTable::Register(const Region& region,
                                                                const NicDomain& domain) {
  std::shared_ptr<Entry>& known = entries_[Key(&region, domain)];
  if (known == nullptr || (!known->pending && !known->status.ok())) known = Start(region, domain);
  ++known->holds;
  return std::unique_ptr<RegionRegistration>(new RegionRegistration(*this, known));
}

std::shared_ptr<RegistrationTable::Entry> RegistrationTable::Start(const Region& region,
                                                                   const NicDomain& domain) {
  auto entry = std::make_shared<Entry>();
  entry->id = RegistrationId(++last_id_);
  entry->region = &region;
  entry->bytes = region.bytes();
  entry->domain = domain;
  entry->status = CheckLimits(region, domain.nic);
  if (!entry->status.ok()) return entry;
  Usage& usage = usage_[domain.nic];
  ++usage.regions;
  usage.bytes += entry->bytes;
  const std::optional<absl::Status> done = registrar_.Register(entry->id, region, domain);
  entry->pending = !done.has_value();
  entry->status = done.value_or(absl::UnavailableError("the registration is in progress"));
  if (entry->pending) {
    working_.emplace(entry->id, entry);
  } else if (!entry->status.ok()) {
    Forget(entry);
  }
  return entry;
}

absl::Status RegistrationTable::CheckLimits(const Region& region, const NicAddress& nic) const {
  const Usage usage = UsageOf(nic);
  if (usage.regions < limits_.regions_per_nic && usage.bytes <= limits_.bytes_per_nic &&
      region.bytes() <= limits_.bytes_per_nic - usage.bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "cannot register ", FormatBytes(region.bytes()), " with NIC ", nic.address, ": ",
      usage.regions, " regions with ", FormatBytes(usage.bytes), " are registered; the limits are ",
      limits_.regions_per_nic, " regions and ", FormatBytes(limits_.bytes_per_nic)));
}

void RegistrationTable::Release(std::unique_ptr<RegionRegistration> hold,
                                std::shared_ptr<void> token) {
  MCCS_CHECK(hold != nullptr && hold->table_ == this);
  if (hold->entry_->holds == 1) hold->entry_->tokens.push_back(std::move(token));
}

void RegistrationTable::Drop(const std::shared_ptr<Entry>& entry) {
  if (--entry->holds > 0) return;
  const auto known = entries_.find(Key(entry->region, entry->domain));
  if (known != entries_.end() && known->second == entry) entries_.erase(known);
  if (entry->pending) return;  // OnFinished continues
  if (entry->status.ok()) {
    StartRelease(entry);
  } else {
    entry->tokens.clear();
  }
}

void RegistrationTable::StartRelease(const std::shared_ptr<Entry>& entry) {
  if (registrar_.Release(entry->id)) {
    Forget(entry);
  } else {
    working_.emplace(entry->id, entry);
  }
}

// It does not count any more.
void RegistrationTable::Forget(const std::shared_ptr<Entry>& entry) {
  const auto usage = usage_.find(entry->domain.nic);
  MCCS_CHECK(usage != usage_.end());
  usage->second.bytes -= entry->bytes;
  if (--usage->second.regions == 0) usage_.erase(usage);
  entry->tokens.clear();
}

bool RegistrationTable::Poll() {
  if (working_.empty()) return false;
  std::array<Registrar::Finished, kFinishedPerPoll> finished;
  const size_t count = registrar_.Poll(finished);
  for (size_t i = 0; i < count; ++i) OnFinished(finished[i]);
  return count > 0;
}

void RegistrationTable::OnFinished(const Registrar::Finished& finished) {
  const auto found = working_.find(finished.id);
  MCCS_CHECK(found != working_.end());
  const std::shared_ptr<Entry> entry = std::move(found->second);
  working_.erase(found);
  if (!entry->pending) return Forget(entry);  // its release is complete
  entry->pending = false;
  entry->status = finished.status;
  if (!entry->status.ok()) return Forget(entry);
  if (entry->holds == 0) StartRelease(entry);
}

std::optional<RegistrationId> RegistrationTable::Find(const Region& region,
                                                      const NicDomain& domain) const {
  const auto found = entries_.find(Key(&region, domain));
  if (found == entries_.end() || !found->second->status.ok()) return std::nullopt;
  return found->second->id;
}

RegistrationTable::Usage RegistrationTable::UsageOf(const NicAddress& nic) const {
  const auto found = usage_.find(nic);
  return found == usage_.end() ? Usage{} : found->second;
}

}  // namespace mccs
