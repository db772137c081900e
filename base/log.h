// Logging, injected like time. A line names its object: what happened, the cause, the remedy.
//
//   log.Warning("communicator ", FormatCommId(id), ": rank 3 has not joined after 5 s");
//
// THREAD: any. Never blocks: a log that cannot write drops lines. Not on the hot path.
#ifndef MCCS_BASE_LOG_H_
#define MCCS_BASE_LOG_H_

#include <cstdint>
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

  // Number of lines lost so far, because they could not be written.
  virtual uint64_t dropped() const { return 0; }

 protected:
  virtual bool Enabled(LogLevel level) const = 0;
  virtual void Write(LogLevel level, std::string_view line) = 0;
};

// Lines on stderr with time, level and the program's name. A thread writes them
// (base/log_writer.h); the destructor and a failed MCCS_CHECK wait for it, one second at most. One
// at a time per process.
std::unique_ptr<Log> MakeStderrLog(const std::string& program, LogLevel lowest);

// Drops all lines: for tests.
std::unique_ptr<Log> MakeNullLog();

// Parses the name of a log level: "debug", "info", "warning", "error". kInvalidArgument: names the
// word.
absl::StatusOr<LogLevel> ParseLogLevel(std::string_view word);

}  // namespace mccs

#endif  // MCCS_BASE_LOG_H_
