// A store in memory whose disk fails when the test says so, and which the controller's death may
// interrupt.
#ifndef MCCS_TESTS_SIM_FAILING_STORE_H_
#define MCCS_TESTS_SIM_FAILING_STORE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "controller/store/memory_store.h"

namespace mccs {

// The error of a store whose disk is full or fails to sync.
inline constexpr char kDiskFailure[] = "cannot write the store: database or disk is full";

class FailingStore final : public Store {
 public:
  // Commits fail, and change nothing.
  void SetFails(bool fails) { fails_ = fails; }
  bool fails() const { return fails_; }
  // The controller dies in the next commit, before or after the change is durable. The caller
  // of the request then kills the controller.
  enum class Death : uint8_t { kNone, kBeforeDurable, kAfterDurable };
  void DieInNextCommit(Death death) { death_ = death; }
  Death death() const { return death_; }
  // The death has come; resets it.
  Death TakeDeath() { return std::exchange(died_, Death::kNone); }

  absl::StatusOr<StoredState> Load() override { return store_.Load(); }
  absl::Status Commit(const StoreChange& change) override {
    if (fails_) return absl::InternalError(kDiskFailure);
    died_ = std::exchange(death_, Death::kNone);
    if (died_ == Death::kNone) return store_.Commit(change);
    if (died_ == Death::kAfterDurable) {
      if (absl::Status kept = store_.Commit(change); !kept.ok()) return kept;
    }
    return absl::InternalError("the controller has died");
  }
  absl::StatusOr<std::vector<AuditEntry>> Audit(size_t limit) override {
    return store_.Audit(limit);
  }

 private:
  MemoryStore store_;
  bool fails_ = false;
  Death death_ = Death::kNone;
  Death died_ = Death::kNone;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_FAILING_STORE_H_
