#include "shim/registrations.h"

namespace mccs::shim {

void* Registrations::Add(Kind kind, void* address) {
  constexpr uintptr_t kSpacing = 64;  // looks like a pointer to something aligned
  std::lock_guard lock(mutex_);
  last_ += kSpacing;
  entries_.emplace(last_, Entry{kind, address});
  return reinterpret_cast<void*>(last_);
}

bool Registrations::Remove(Kind kind, void* handle) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(reinterpret_cast<uintptr_t>(handle));
  if (found == entries_.end() || found->second.kind != kind) return false;
  entries_.erase(found);
  return true;
}

std::optional<void*> Registrations::AddressOf(Kind kind, void* handle) const {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(reinterpret_cast<uintptr_t>(handle));
  if (found == entries_.end() || found->second.kind != kind) return std::nullopt;
  return found->second.address;
}

}  // namespace mccs::shim
