#include "service/transport/rdma/rdma_registrar.h"

#include "base/status_macros.h"

namespace mccs {

std::optional<absl::Status> RdmaRegistrar::Register(RegistrationId id, const Region& region,
                                                    const NicDomain& domain) {
  absl::StatusOr<std::shared_ptr<PairDomain>> used = pairs_.Domain(domain);
  if (!used.ok()) return used.status();
  const std::span<std::byte> memory = MemoryOf(region);
  auto registered = (*used)->verbs->Register(memory.data(), memory.size());
  if (!registered.ok()) return registered.status();
  regions_.emplace(id, Registered{.domain = *std::move(used), .region = *std::move(registered)});
  return absl::OkStatus();
}

bool RdmaRegistrar::Release(RegistrationId id) {
  regions_.erase(id);
  return true;
}

const MemoryRegion* RdmaRegistrar::Find(RegistrationId id) const {
  const auto found = regions_.find(id);
  return found == regions_.end() ? nullptr : found->second.region.get();
}

}  // namespace mccs
