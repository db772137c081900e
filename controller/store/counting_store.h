// Wraps a store and counts its commits, for metrics.
//
// OWNER: main. THREAD: any, as the wrapped store.
#ifndef MCCS_CONTROLLER_STORE_COUNTING_STORE_H_
#define MCCS_CONTROLLER_STORE_COUNTING_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "controller/store/store.h"

namespace mccs {

struct StoreCounts {
  uint64_t commits = 0;
  uint64_t failed_commits = 0;
  int64_t commit_ns = 0;  // total time of commits, including failed ones
  // Number of audit entries by action and outcome, without the text after the outcome's colon.
  std::map<std::pair<std::string, std::string>, uint64_t> audit;
};

class CountingStore final : public Store {
 public:
  // LIFETIME: `clock` outlives it.
  CountingStore(std::unique_ptr<Store> store, const Clock* clock)
      : store_(std::move(store)), clock_(clock) {}

  absl::StatusOr<StoredState> Load() override { return store_->Load(); }
  absl::Status Commit(const StoreChange& change) override;
  absl::StatusOr<std::vector<AuditEntry>> Audit(size_t limit) override {
    return store_->Audit(limit);
  }

  StoreCounts counts() const;

 private:
  const std::unique_ptr<Store> store_;
  const Clock* const clock_;
  mutable std::mutex mutex_;  // guards counts_; not held during calls of store_
  StoreCounts counts_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STORE_COUNTING_STORE_H_
