#include "controller/store/memory_store.h"

#include "absl/strings/str_cat.h"

namespace mccs {

absl::StatusOr<StoredState> MemoryStore::Load() {
  const std::lock_guard lock(mutex_);
  StoredState state;
  state.revision = revision_;
  for (const auto& [key, object] : objects_) state.objects.push_back(object);
  for (const auto& [id, strategy] : strategies_) state.strategies.push_back(strategy);
  return state;
}

absl::Status MemoryStore::Commit(const StoreChange& change) {
  const std::lock_guard lock(mutex_);
  const uint64_t revision = change.revision.value_or(revision_);
  if (revision != revision_ && revision != revision_ + 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("revision ", revision, " does not follow ", revision_));
  }
  revision_ = revision;
  for (const auto& key : change.erase_objects) objects_.erase(key);
  for (const StoredObject& object : change.put_objects) {
    objects_[{object.kind, object.name}] = object;
  }
  for (CommId id : change.erase_strategies) strategies_.erase(id);
  for (const StoredStrategy& strategy : change.put_strategies) {
    strategies_[strategy.id] = strategy;
  }
  for (AuditEntry entry : change.audit) {
    entry.number = ++last_audit_;
    audit_.push_back(std::move(entry));
    if (audit_.size() > kMaxAuditEntries) audit_.pop_front();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AuditEntry>> MemoryStore::Audit(size_t limit) {
  const std::lock_guard lock(mutex_);
  std::vector<AuditEntry> newest;
  for (auto entry = audit_.rbegin(); entry != audit_.rend() && newest.size() < limit; ++entry) {
    newest.push_back(*entry);
  }
  return newest;
}

}  // namespace mccs
