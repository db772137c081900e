// The store in a file: an SQLite database with a write-ahead log beside it, on a local disk.
//
// Only one controller can open a file. The schema has a version; files with a later one are
// rejected.
#ifndef MCCS_CONTROLLER_STORE_SQLITE_STORE_H_
#define MCCS_CONTROLLER_STORE_SQLITE_STORE_H_

#include <memory>
#include <mutex>
#include <string>

#include "base/unique_fd.h"
#include "controller/store/sqlite.h"
#include "controller/store/store.h"

namespace mccs {

// One controller per store.
//
// Locks `store`.lock, next to the file that symbolic links resolve to. The lock ends with the
// descriptor; the lock file stays. kAlreadyExists: another process holds the lock; the message
// names it. kFailedPrecondition: the store has hard links. kPermissionDenied, kNotFound and others:
// the file cannot be written or locked.
absl::StatusOr<UniqueFd> LockStore(const std::string& store);

// The error for a failed flock() of `file` with this errno.
absl::Status LockError(int error, const std::string& store, const std::string& file);

class SqliteStore final : public Store {
 public:
  static constexpr int64_t kSchemaVersion = 1;
  // SQLite's application id, which distinguishes our files from other programs'. "MCCS".
  static constexpr int64_t kApplicationId = 0x4d434353;

  // Opens or creates the file. kAlreadyExists: another controller has it open. kFailedPrecondition:
  // the file of another program or schema version. kInternal: unusable; the message has the reason.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path);

  absl::StatusOr<StoredState> Load() override;
  absl::Status Commit(const StoreChange& change) override;
  absl::StatusOr<std::vector<AuditEntry>> Audit(size_t limit) override;

 private:
  SqliteStore(UniqueFd lock, std::unique_ptr<SqliteDatabase> database)
      : lock_(std::move(lock)), database_(std::move(database)) {}

  absl::Status PutObjects(const StoreChange& change);
  absl::Status PutStrategies(const StoreChange& change);
  absl::Status AppendAudit(const std::vector<AuditEntry>& entries);

  const UniqueFd lock_;
  std::mutex mutex_;  // guards database_
  const std::unique_ptr<SqliteDatabase> database_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STORE_SQLITE_STORE_H_
