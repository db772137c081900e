#include "controller/store/sqlite_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

constexpr char kSchema[] = R"sql(
  CREATE TABLE revision (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    value INTEGER NOT NULL
  );
  INSERT INTO revision VALUES (1, 0);
  CREATE TABLE objects (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (kind, name)
  ) WITHOUT ROWID;
  CREATE TABLE strategies (
    communicator INTEGER PRIMARY KEY,
    record BLOB NOT NULL
  );
  CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    time INTEGER NOT NULL,
    peer TEXT NOT NULL,
    user TEXT NOT NULL,
    action TEXT NOT NULL,
    objects TEXT NOT NULL,
    outcome TEXT NOT NULL,
    revision INTEGER NOT NULL
  );
)sql";

// The columns that the first release with this version of the schema did not have. Their defaults
// suit older entries, and releases without them can still use the store.
absl::Status AddColumns(SqliteDatabase* database) {
  MCCS_ASSIGN_OR_RETURN(const int64_t known,
                        database->Integer("SELECT count(*) FROM pragma_table_info('audit') "
                                          "WHERE name = 'user_proven'"));
  if (known > 0) return absl::OkStatus();
  return database->Execute("ALTER TABLE audit ADD COLUMN user_proven INTEGER NOT NULL DEFAULT 0");
}

absl::Status MakeSchema(SqliteDatabase* database) {
  MCCS_RETURN_IF_ERROR(database->Execute(kSchema));
  return database->Execute(absl::StrCat("PRAGMA application_id = ", SqliteStore::kApplicationId,
                                        "; PRAGMA user_version = ", SqliteStore::kSchemaVersion));
}

// Creates the schema in a new file, and checks it in an existing one.
absl::Status Prepare(SqliteDatabase* database, const std::string& path) {
  MCCS_ASSIGN_OR_RETURN(const int64_t tables,
                        database->Integer("SELECT count(*) FROM sqlite_schema"));
  MCCS_ASSIGN_OR_RETURN(const int64_t application, database->Integer("PRAGMA application_id"));
  MCCS_ASSIGN_OR_RETURN(const int64_t version, database->Integer("PRAGMA user_version"));
  if (tables == 0 && application == 0 && version == 0) {
    MCCS_RETURN_IF_ERROR(MakeSchema(database));
    return AddColumns(database);
  }
  if (application != SqliteStore::kApplicationId) {
    return absl::FailedPreconditionError(
        absl::StrCat("the store ", path,
                     " is a database of another program; choose another file (--store FILE)"));
  }
  if (version == SqliteStore::kSchemaVersion) return AddColumns(database);
  return absl::FailedPreconditionError(
      absl::StrCat("the store ", path, " has version ", version,
                   " of the schema, this mccs-controller supports ", SqliteStore::kSchemaVersion,
                   version > SqliteStore::kSchemaVersion
                       ? "; install the release that wrote it, or a later one"
                       : "; first start a mccs-controller release that converts this version"));
}

// Write-ahead log with a sync at each commit: a successful Commit() is durable.
absl::Status MakeDurable(SqliteDatabase* database, const std::string& path) {
  std::string mode;
  MCCS_RETURN_IF_ERROR(database->ForEachRow(
      "PRAGMA journal_mode = WAL", [&](const SqliteStatement& row) { mode = row.Text(0); }));
  if (mode != "wal") {
    return absl::FailedPreconditionError(
        absl::StrCat("the store ", path, ": its file system does not support a write-ahead log (",
                     mode, "); choose a local disk"));
  }
  return database->Execute("PRAGMA synchronous = FULL");
}

std::string FirstLine(const std::string& file) {
  std::string line;
  std::getline(std::ifstream(file) >> std::ws, line);
  return line;
}

// Equals the kernel's limit.
constexpr int kMaxLinks = 40;

// Resolves symbolic links as SQLite does, so that all paths to a store have one lock. Also follows
// links to a file that does not exist yet, which SQLite creates.
std::string Resolved(const std::string& store) {
  std::error_code error;
  std::filesystem::path path = store;
  for (int links = 0; links < kMaxLinks; ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) break;  // Not a link.
    path = path.parent_path() / target;
  }
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(path, error);
  return error ? store : resolved.string();
}

}  // namespace

absl::Status LockError(int error, const std::string& store, const std::string& file) {
  if (error != EWOULDBLOCK) {
    return absl::Status(
        absl::ErrnoToStatusCode(error),
        absl::StrCat("the store ", store, ": cannot lock ", file, ": ", std::strerror(error),
                     "; use a file system that supports flock"));
  }
  const std::string owner = FirstLine(file);
  return absl::AlreadyExistsError(
      absl::StrCat("the store ", store, " is in use by another mccs-controller",
                   owner.empty() ? "" : absl::StrCat(" (process ", owner, ")"),
                   "; stop that one, or choose another store (--store FILE)"));
}

absl::StatusOr<UniqueFd> LockStore(const std::string& store) {
  // Another hard link would have another lock and another journal.
  struct stat facts {};
  if (stat(store.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the store ", store, " has ", facts.st_nlink,
        " hard links, so the lock cannot protect it; remove the others, or copy the file"));
  }
  const std::string file = absl::StrCat(Resolved(store), ".lock");
  UniqueFd fd(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    return absl::Status(
        absl::ErrnoToStatusCode(errno),
        absl::StrCat("the store ", store, ": cannot write ", file, ": ", std::strerror(errno),
                     "; check that its directory exists and that this user may write there"));
  }
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return LockError(errno, store, file);
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd.get(), 0) != 0 ||
      write(fd.get(), pid.data(), pid.size()) != static_cast<ssize_t>(pid.size())) {
    return absl::Status(absl::ErrnoToStatusCode(errno),
                        absl::StrCat("the store ", store, ": cannot write ", file, ": ",
                                     std::strerror(errno), "; check that the disk has space"));
  }
  return fd;
}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& path) {
  MCCS_ASSIGN_OR_RETURN(UniqueFd lock, LockStore(path));
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, SqliteDatabase::Open(path));
  MCCS_RETURN_IF_ERROR(database->Transaction([&] { return Prepare(database.get(), path); }));
  MCCS_RETURN_IF_ERROR(MakeDurable(database.get(), path));
  return std::unique_ptr<SqliteStore>(new SqliteStore(std::move(lock), std::move(database)));
}

absl::StatusOr<StoredState> SqliteStore::Load() {
  const std::lock_guard lock(mutex_);
  StoredState state;
  MCCS_ASSIGN_OR_RETURN(const int64_t revision, database_->Integer("SELECT value FROM revision"));
  state.revision = static_cast<uint64_t>(revision);

  MCCS_RETURN_IF_ERROR(database_->ForEachRow(
      "SELECT kind, name, version, document FROM objects ORDER BY kind, name",
      [&](const SqliteStatement& row) {
        state.objects.push_back(
            {row.Text(0), row.Text(1), static_cast<uint64_t>(row.Integer(2)), row.Text(3)});
      }));
  MCCS_RETURN_IF_ERROR(database_->ForEachRow(
      "SELECT communicator, record FROM strategies", [&](const SqliteStatement& row) {
        state.strategies.push_back({CommId(static_cast<uint64_t>(row.Integer(0))), row.Text(1)});
      }));
  return state;
}

absl::Status SqliteStore::Commit(const StoreChange& change) {
  const std::lock_guard lock(mutex_);
  return database_->Transaction([&]() -> absl::Status {
    MCCS_ASSIGN_OR_RETURN(const int64_t stored, database_->Integer("SELECT value FROM revision"));
    const auto before = static_cast<uint64_t>(stored);
    const uint64_t revision = change.revision.value_or(before);
    if (revision != before && revision != before + 1) {
      return absl::FailedPreconditionError(
          absl::StrCat("revision ", revision, " does not follow ", before));
    }
    MCCS_RETURN_IF_ERROR(database_->Run("UPDATE revision SET value = ?", revision));
    MCCS_RETURN_IF_ERROR(PutObjects(change));
    MCCS_RETURN_IF_ERROR(PutStrategies(change));
    return AppendAudit(change.audit);
  });
}

absl::Status SqliteStore::PutObjects(const StoreChange& change) {
  for (const auto& [kind, name] : change.erase_objects) {
    MCCS_RETURN_IF_ERROR(
        database_->Run("DELETE FROM objects WHERE kind = ? AND name = ?", kind, name));
  }
  for (const StoredObject& object : change.put_objects) {
    MCCS_RETURN_IF_ERROR(database_->Run("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)",
                                        object.kind, object.name, object.version, object.document));
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::PutStrategies(const StoreChange& change) {
  for (CommId id : change.erase_strategies) {
    MCCS_RETURN_IF_ERROR(
        database_->Run("DELETE FROM strategies WHERE communicator = ?", id.value()));
  }
  for (const StoredStrategy& strategy : change.put_strategies) {
    MCCS_RETURN_IF_ERROR(database_->Run("INSERT OR REPLACE INTO strategies VALUES (?, ?)",
                                        strategy.id.value(), SqliteBlob{strategy.record}));
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::AppendAudit(const std::vector<AuditEntry>& entries) {
  for (const AuditEntry& entry : entries) {
    MCCS_RETURN_IF_ERROR(
        database_->Run("INSERT INTO audit (time, peer, user, action, objects, outcome, revision, "
                       "user_proven) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                       entry.time, entry.peer, entry.user, entry.action, entry.objects,
                       entry.outcome, entry.revision, int64_t{entry.user_proven}));
  }
  if (entries.empty()) return absl::OkStatus();
  return database_->Run("DELETE FROM audit WHERE number <= (SELECT max(number) FROM audit) - ?",
                        kMaxAuditEntries);
}

absl::StatusOr<std::vector<AuditEntry>> SqliteStore::Audit(size_t limit) {
  const std::lock_guard lock(mutex_);
  std::vector<AuditEntry> entries;
  MCCS_RETURN_IF_ERROR(database_->ForEachRow(
      "SELECT number, time, peer, user, action, objects, outcome, revision, user_proven "
      "FROM audit "
      "ORDER BY number DESC LIMIT ?",
      [&](const SqliteStatement& row) {
        entries.push_back({.number = static_cast<uint64_t>(row.Integer(0)),
                           .time = row.Integer(1),
                           .peer = row.Text(2),
                           .user = row.Text(3),
                           .action = row.Text(4),
                           .objects = row.Text(5),
                           .outcome = row.Text(6),
                           .revision = static_cast<uint64_t>(row.Integer(7)),
                           .user_proven = row.Integer(8) != 0});
      },
      static_cast<uint64_t>(limit)));
  return entries;
}

}  // namespace mccs
