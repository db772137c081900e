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

// A prepared statement, at one of its rows. LIFETIME: its database outlives it.
class SqliteStatement {
 public:
  // Columns are numbered from 0.
  int64_t Integer(int column) const;
  std::string Text(int column) const;  // also for a blob

 private:
  friend class SqliteDatabase;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit SqliteStatement(sqlite3_stmt* statement) : statement_(statement) {}

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// A parameter that is not text.
struct SqliteBlob {
  const std::string& bytes;
};

class SqliteDatabase {
 public:
  // Opens or creates the file `path`.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& path);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;

  // Runs statements without parameters and rows, separated by semicolons.
  absl::Status Execute(const std::string& sql);
  // Runs one statement with `values` for its question marks, and calls `take(const
  // SqliteStatement&)` for each row.
  template <typename Take, typename... Values>
  absl::Status ForEachRow(const std::string& sql, Take take, const Values&... values) {
    absl::StatusOr<SqliteStatement> statement = Prepare(sql);
    if (!statement.ok()) return statement.status();
    int parameter = 0;
    int error = 0;
    ((error = error != 0 ? error : Bind(*statement, ++parameter, values)), ...);
    for (;;) {
      const absl::StatusOr<bool> row = Step(*statement, error);
      if (!row.ok() || !*row) return row.status();
      take(*statement);
    }
  }
  // Likewise, for statements without rows.
  template <typename... Values>
  absl::Status Run(const std::string& sql, const Values&... values) {
    return ForEachRow(
        sql, [](const SqliteStatement&) {}, values...);
  }
  // The first column of the only row.
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

  absl::StatusOr<SqliteStatement> Prepare(const std::string& sql);
  // True: there is a row. `bind_error`: of a parameter; 0: none.
  absl::StatusOr<bool> Step(const SqliteStatement& statement, int bind_error);
  // Return SQLite's error code; parameters are numbered from 1.
  static int Bind(const SqliteStatement& statement, int parameter, int64_t value);
  static int Bind(const SqliteStatement& statement, int parameter, uint64_t value);
  static int Bind(const SqliteStatement& statement, int parameter, const std::string& text);
  static int Bind(const SqliteStatement& statement, int parameter, const SqliteBlob& blob);

  sqlite3* const database_;
  const std::string path_;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STORE_SQLITE_H_
