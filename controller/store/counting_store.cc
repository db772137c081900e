#include "controller/store/counting_store.h"

namespace mccs {

absl::Status CountingStore::Commit(const StoreChange& change) {
  const MonotonicNs began = clock_->Now();
  absl::Status kept = store_->Commit(change);
  const int64_t took_ns = clock_->Now() - began;
  const std::lock_guard lock(mutex_);
  counts_.commit_ns += took_ns;
  if (!kept.ok()) {
    ++counts_.failed_commits;
    return kept;
  }
  ++counts_.commits;
  for (const AuditEntry& entry : change.audit) {
    // The part before the colon is from a fixed set.
    ++counts_.audit[{entry.action, entry.outcome.substr(0, entry.outcome.find(':'))}];
  }
  return kept;
}

StoreCounts CountingStore::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace mccs
