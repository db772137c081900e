#include "base/log.h"

#include <spdlog/details/log_msg.h>
#include <spdlog/pattern_formatter.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log_writer.h"

namespace mccs {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// Time with time zone, level, program and process, then the message.
constexpr char kPattern[] = "%Y-%m-%dT%H:%M:%S.%f%z %L %n[%P] %v";
// Limits how long a failed check delays the end of the process.
constexpr std::chrono::milliseconds kFailureTimeout{1000};

// Makes the lines of one program. THREAD: any.
class LineFormat {
 public:
  explicit LineFormat(std::string program) : program_(std::move(program)), formatter_(kPattern) {}

  std::string Line(LogLevel level, std::string_view message) {
    const spdlog::details::log_msg parts(program_, ToSpdlog(level),
                                         spdlog::string_view_t(message.data(), message.size()));
    spdlog::memory_buf_t line;
    const std::lock_guard lock(mutex_);
    formatter_.format(parts, line);
    return std::string(line.data(), line.size());
  }

 private:
  const std::string program_;
  std::mutex mutex_;
  spdlog::pattern_formatter formatter_;
};

std::string DescribeDropped(LineFormat& format, uint64_t lines) {
  return format.Line(LogLevel::kWarning,
                     absl::StrCat(lines,
                                  " lines dropped: stderr did not accept them in time; check the "
                                  "reader of the log"));
}

class StderrLog;
// Flushed by a failed check.
std::atomic<StderrLog*> g_stderr_log = nullptr;

class StderrLog final : public Log {
 public:
  StderrLog(const std::string& program, LogLevel lowest)
      : lowest_(lowest),
        format_(std::make_shared<LineFormat>(program)),
        writer_({.fd = STDERR_FILENO, .describe_dropped = [format = format_](uint64_t lines) {
                   return DescribeDropped(*format, lines);
                 }}) {
    g_stderr_log = this;
    SetCheckFailureWriter([](std::string_view line) {
      if (StderrLog* const log = g_stderr_log) log->WriteLast(line);
    });
  }
  ~StderrLog() override {
    SetCheckFailureWriter(nullptr);
    g_stderr_log = nullptr;
  }

  uint64_t dropped() const override { return writer_.dropped(); }

 protected:
  bool Enabled(LogLevel level) const override { return level >= lowest_; }
  void Write(LogLevel level, std::string_view line) override {
    if (Enabled(level)) writer_.Append(format_->Line(level, line));
  }

 private:
  // The process is about to abort.
  void WriteLast(std::string_view line) {
    Write(LogLevel::kError, line);
    writer_.Flush(kFailureTimeout);
  }

  const LogLevel lowest_;
  const std::shared_ptr<LineFormat> format_;
  LogWriter writer_;
};

class NullLog final : public Log {
 protected:
  bool Enabled(LogLevel) const override { return false; }
  void Write(LogLevel, std::string_view) override {}
};

}  // namespace

std::unique_ptr<Log> MakeStderrLog(const std::string& program, LogLevel lowest) {
  return std::make_unique<StderrLog>(program, lowest);
}

std::unique_ptr<Log> MakeNullLog() { return std::make_unique<NullLog>(); }

absl::StatusOr<LogLevel> ParseLogLevel(std::string_view word) {
  if (word == "debug") return LogLevel::kDebug;
  if (word == "info") return LogLevel::kInfo;
  if (word == "warning") return LogLevel::kWarning;
  if (word == "error") return LogLevel::kError;
  return absl::InvalidArgumentError(absl::StrCat("invalid log level '", std::string(word),
                                                 "': expected debug, info, warning or error"));
}

}  // namespace mccs
