// The controller's store of the random world: production's SqliteStore on a disk that is full or
// fails to sync when the test says so, and a controller that dies in a commit.
//
// After each failure, and whenever a controller starts, the store must have exactly the commits
// that succeeded. A controller that starts may also find the whole of one that failed.
//
// THREAD: one. At most one exists.
#ifndef MCCS_TESTS_SIM_FAILING_STORE_H_
#define MCCS_TESTS_SIM_FAILING_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/store/sqlite_store.h"
#include "tests/unit/store/failing_files.h"

namespace mccs {

class FailingStore final : public Store {
 public:
  using Fault = FailingFiles::Fault;

  explicit FailingStore(std::string path);

  // Until Repair, each commit fails after that number of its writes (kSyncFails: syncs), and
  // changes nothing. `fault`: kDiskFull or kSyncFails.
  void Fail(Fault fault, uint64_t after) {
    fault_ = fault;
    fails_after_ = after;
  }
  void Repair() { fault_ = Fault::kNone; }
  Fault fault() const { return fault_; }

  // The controller dies in the next commit that meets no such fault: in this one of its writes, of
  // which a part reaches the disk, or after the commit if it has fewer. The caller of the request
  // then kills the controller.
  void DieInNextCommit(uint64_t write) { dies_in_write_ = write; }
  void StayAlive() { dies_in_write_.reset(); }
  // Whether the death has come; resets it.
  bool TakeDeath() { return std::exchange(died_, false); }
  // Those in which a write was torn.
  uint64_t torn_writes() const { return torn_writes_; }

  // The controller ends, as by SIGKILL, and the next one opens the files.
  void Reopen();
  // A commit that is not stored as a whole, or a failed one that is; empty: none.
  std::string FindViolation();

  absl::StatusOr<StoredState> Load() override { return store_->Load(); }
  absl::Status Commit(const StoreChange& change) override;
  absl::StatusOr<std::vector<AuditEntry>> Audit(size_t limit) override {
    return store_->Audit(limit);
  }

 private:
  // Whether it has exactly the commits that succeeded, and `more` (may be null).
  bool Has(const StoreChange* more);
  void Expect(bool holds, const char* violation) {
    if (!holds && violation_.empty()) violation_ = violation;
  }

  const std::string path_;
  FailingFiles files_;  // outlives store_
  std::unique_ptr<SqliteStore> store_;
  std::vector<StoreChange> committed_;
  std::vector<StoreChange> failed_;
  Fault fault_ = Fault::kNone;
  uint64_t fails_after_ = 0;
  std::optional<uint64_t> dies_in_write_;
  bool died_ = false;
  uint64_t torn_writes_ = 0;
  std::string violation_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_FAILING_STORE_H_
