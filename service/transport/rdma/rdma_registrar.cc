#include "service/transport/rdma/rdma_registrar.h"

#include "base/status_macros.h"

namespace mccs {

std::optional<absl::Status> RdmaRegistrar::Register(RegistrationId id, const Region& region,
                                                    const NicAddress& nic) {
  const absl::StatusOr<ProtectionDomain*> domain = pairs_.Domain(nic);
  if (!domain.ok()) return domain.status();
  const std::span<std::byte> memory = MemoryOf(region);
  auto registered = (*domain)->Register(memory.data(), memory.size());
  if (!registered.ok()) return registered.status();
  regions_.emplace(id, *std::move(registered));
  return absl::OkStatus();
}

bool RdmaRegistrar::Release(RegistrationId id) {
  regions_.erase(id);
  return true;
}

const MemoryRegion* RdmaRegistrar::Find(RegistrationId id) const {
  const auto found = regions_.find(id);
  return found == regions_.end() ? nullptr : found->second.get();
}

}  // namespace mccs
