// Minimal SQLite wrapper with statuses: database, statements, transactions. Has no schema.
//
// THREAD: one at a time.
#ifndef MCCS_CONTROLLER_STORE_SQLITE_H_
#define MCCS_CONTROLLER_STORE_SQLITE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace mccs {

// One execution of a prepared statement. LIFETIME: its database outlives it.
class SqliteStatement {
 public:
  // Parameters are numbered from 1, in the order of their request_id marks.
  SqliteStatement& Bind(int parameter, int64_t value);
  SqliteStatement& Bind(int parameter, const std::string& text);
  SqliteStatement& BindBlob(int parameter, const std::string& bytes);

  // True: there is a row for the calls below. Columns are numbered from 0.
  absl::StatusOr<bool> Step();
  // For statements without rows.
  absl::Status Run();

  int64_t Integer(int column) const;
  std::string Text(int column) const;  // also for a blob

 private:
  friend class SqliteDatabase;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteStatement(sqlite3* database, sqlite3_stmt* statement, const std::string* path)
      : database_(database), statement_(statement), path_(path) {}

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  const std::string* path_;
  int bind_error_ = 0;
};

class SqliteDatabase {
 public:
  // Opens or creates the file `path`.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& path);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;

  // Runs statements without parameters and rows, separated by semicolons.
  absl::Status Execute(const std::string& sql);
  absl::StatusOr<SqliteStatement> Prepare(const std::string& sql);
  // The first column of the first row.
  absl::StatusOr<int64_t> Integer(const std::string& sql);

  // Runs `work`, which returns a status, between BEGIN IMMEDIATE and COMMIT; rolls back on any
  // error.
  template <typename Work>
  absl::Status Transaction(Work work) {
    if (absl::Status begun = Execute("BEGIN IMMEDIATE"); !begun.ok()) return begun;
    absl::Status status = work();
    if (status.ok()) status = Execute("COMMIT");
    // After some errors SQLite has rolled back already; ROLLBACK then fails harmlessly.
    if (!status.ok()) (void)Execute("ROLLBACK");
    return status;
  }

 private:
  SqliteDatabase(sqlite3* database, const std::string& path) : database_(database), path_(path) {}

  sqlite3* const database_;
  const std::string path_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STORE_SQLITE_H_
