#include "controller/store/sqlite.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// How long a statement waits for another process that reads the file.
constexpr int kBusyMs = 2000;

const char* Remedy(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return "; the disk is full: delete files, or enlarge it";
    case SQLITE_IOERR:
      return "; check the disk and the kernel's log";
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return "; check that its directory exists and that this user may write there";
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return "; move the file away, or restore a backup";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "; another program has locked the file";
    default:
      return "";
  }
}

absl::Status Failure(sqlite3* database, int code, const std::string& path) {
  const char* why = database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  return absl::InternalError(absl::StrCat("the store ", path, ": ", why, Remedy(code)));
}

}  // namespace

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

int64_t SqliteStatement::Integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string SqliteStatement::Text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes != nullptr ? std::string(static_cast<const char*>(bytes), size) : std::string();
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& path) {
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &opened,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  // SQLite requires close even after a failed open.
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(opened, path));
  if (code != SQLITE_OK) return Failure(opened, code, path);
  sqlite3_busy_timeout(opened, kBusyMs);
  return database;
}

SqliteDatabase::~SqliteDatabase() { sqlite3_close(database_); }

absl::Status SqliteDatabase::Execute(const std::string& sql) {
  const int code = sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Failure(database_, code, path_);
}

absl::StatusOr<SqliteStatement> SqliteDatabase::Prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(database_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return Failure(database_, code, path_);
  return SqliteStatement(statement);
}

absl::StatusOr<bool> SqliteDatabase::Step(const SqliteStatement& statement, int bind_error) {
  const int code = bind_error != SQLITE_OK ? bind_error : sqlite3_step(statement.statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return Failure(database_, code, path_);
}

int SqliteDatabase::Bind(const SqliteStatement& statement, int parameter, int64_t value) {
  return sqlite3_bind_int64(statement.statement_.get(), parameter, value);
}

int SqliteDatabase::Bind(const SqliteStatement& statement, int parameter, uint64_t value) {
  return Bind(statement, parameter, static_cast<int64_t>(value));
}

int SqliteDatabase::Bind(const SqliteStatement& statement, int parameter, const std::string& text) {
  return sqlite3_bind_text64(statement.statement_.get(), parameter, text.data(), text.size(),
                             SQLITE_TRANSIENT, SQLITE_UTF8);
}

int SqliteDatabase::Bind(const SqliteStatement& statement, int parameter, const SqliteBlob& blob) {
  return sqlite3_bind_blob64(statement.statement_.get(), parameter, blob.bytes.data(),
                             blob.bytes.size(), SQLITE_TRANSIENT);
}

absl::StatusOr<int64_t> SqliteDatabase::Integer(const std::string& sql) {
  int64_t value = 0;
  MCCS_RETURN_IF_ERROR(
      ForEachRow(sql, [&](const SqliteStatement& row) { value = row.Integer(0); }));
  return value;
}

}  // namespace mccs
