#include "shim/buffers/registrations.h"

namespace mccs::shim {

Registrations::~Registrations() {
  for (const auto& [handle, entry] : entries_) exports_.leases().Unpin(entry.range);
}

void* Registrations::Add(Kind kind, const AddressRange& range, uint64_t window) {
  constexpr uintptr_t kSpacing = 64;  // handles look like aligned pointers
  exports_.leases().Pin(range);
  std::lock_guard lock(mutex_);
  last_ += kSpacing;
  entries_.emplace(last_, Entry{kind, range, window});
  return reinterpret_cast<void*>(last_);
}

bool Registrations::Remove(Kind kind, void* handle) {
  AddressRange range;
  {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(reinterpret_cast<uintptr_t>(handle));
    if (found == entries_.end() || found->second.kind != kind) return false;
    range = found->second.range;
    entries_.erase(found);
  }
  exports_.leases().Unpin(range);
  exports_.ReleaseUnlessPinned(range);
  return true;
}

std::vector<AddressRange> Registrations::WindowRanges() const {
  std::lock_guard lock(mutex_);
  std::vector<AddressRange> ranges;
  for (const auto& [handle, entry] : entries_) {
    if (entry.kind == Kind::kWindow) ranges.push_back(entry.range);
  }
  return ranges;
}

std::optional<Registrations::Entry> Registrations::Find(Kind kind, void* handle) const {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(reinterpret_cast<uintptr_t>(handle));
  if (found == entries_.end() || found->second.kind != kind) return std::nullopt;
  return found->second;
}

}  // namespace mccs::shim
