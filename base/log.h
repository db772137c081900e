// Logging, injected like time. A line names its object: what happened, the cause, the remedy.
//
//   log.Warning("communicator ", FormatCommId(id), ": rank 3 has not joined after 5 s");
//
// THREAD: any. Not on the hot path.
#ifndef MCCS_BASE_LOG_H_
#define MCCS_BASE_LOG_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace mccs {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

class Log {
 public:
  virtual ~Log() = default;

  template <typename... Parts>
  void Debug(const Parts&... parts) {
    if (Enabled(LogLevel::kDebug)) Write(LogLevel::kDebug, absl::StrCat(parts...));
  }
  template <typename... Parts>
  void Info(const Parts&... parts) {
    if (Enabled(LogLevel::kInfo)) Write(LogLevel::kInfo, absl::StrCat(parts...));
  }
  template <typename... Parts>
  void Warning(const Parts&... parts) {
    Write(LogLevel::kWarning, absl::StrCat(parts...));
  }
  template <typename... Parts>
  void Error(const Parts&... parts) {
    Write(LogLevel::kError, absl::StrCat(parts...));
  }

 protected:
  virtual bool Enabled(LogLevel level) const = 0;
  virtual void Write(LogLevel level, std::string_view line) = 0;
};

// Lines on stderr with time, level and the program's name.
std::unique_ptr<Log> MakeStderrLog(const std::string& program, LogLevel lowest);

// Drops all lines: for tests.
std::unique_ptr<Log> MakeNullLog();

// Parses the name of a log level: "debug", "info", "warning", "error". kInvalidArgument: names the
// word.
absl::StatusOr<LogLevel> ParseLogLevel(std::string_view word);

}  // namespace mccs

#endif  // MCCS_BASE_LOG_H_
