#include "base/stderr_log.h"

#include <spdlog/details/log_msg.h>
#include <spdlog/pattern_formatter.h>
#include <unistd.h>
#include <utf8.h>

#include <chrono>
#include <iterator>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

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

// A longer message is cut.
constexpr size_t kMaxMessageBytes = 8192;

// `message` as one line: the messages have texts of tenants, daemons and operators, which must not
// begin a line of their own or control a terminal. C1 controls are two bytes of UTF-8, the first of
// which is 0xc2.
std::string OneLine(std::string_view message) {
  std::string kept;
  const std::string_view part = message.substr(0, kMaxMessageBytes);
  utf8::replace_invalid(part.begin(), part.end(), std::back_inserter(kept), U'?');
  std::string line;
  line.reserve(kept.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    const auto byte = static_cast<unsigned char>(kept[i]);
    const auto next = static_cast<unsigned char>(i + 1 < kept.size() ? kept[i + 1] : 0);
    if (byte == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += '?';
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      line += '?';
      ++i;
    } else {
      line += kept[i];
    }
  }
  if (part.size() < message.size()) absl::StrAppend(&line, "... (", message.size(), " bytes)");
  return line;
}

// Flushed by a failed check.
std::atomic<StderrLog*> g_stderr_log = nullptr;

}  // namespace

// Makes the lines of one program. THREAD: any.
class StderrLog::LineFormat {
 public:
  explicit LineFormat(std::string program) : program_(std::move(program)), formatter_(kPattern) {}

  std::string Line(LogLevel level, std::string_view text) {
    const std::string message = OneLine(text);
    const spdlog::details::log_msg parts(program_, ToSpdlog(level),
                                         spdlog::string_view_t(message.data(), message.size()));
    spdlog::memory_buf_t line;
    const std::lock_guard lock(mutex_);
    formatter_.format(parts, line);
    return std::string(line.data(), line.size());
  }

  std::string DescribeDropped(uint64_t lines) {
    return Line(LogLevel::kWarning,
                absl::StrCat(lines,
                             " lines dropped: stderr did not accept them in time; check the "
                             "reader of the log"));
  }

 private:
  const std::string program_;
  std::mutex mutex_;
  spdlog::pattern_formatter formatter_;
};

const char* LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "";
}

StderrLog::StderrLog(const std::string& program, LogLevel lowest)
    : lowest_(lowest),
      format_(std::make_shared<LineFormat>(program)),
      writer_({.fd = STDERR_FILENO, .describe_dropped = [format = format_](uint64_t lines) {
                 return format->DescribeDropped(lines);
               }}) {
  g_stderr_log = this;
  SetCheckFailureWriter([](std::string_view line) {
    if (StderrLog* const log = g_stderr_log) log->WriteLast(line);
  });
}

StderrLog::~StderrLog() {
  SetCheckFailureWriter(nullptr);
  g_stderr_log = nullptr;
}

void StderrLog::Write(LogLevel level, std::string_view line) {
  if (Enabled(level)) writer_.Append(format_->Line(level, line));
}

void StderrLog::WriteLast(std::string_view line) {
  Write(LogLevel::kError, line);
  writer_.Flush(kFailureTimeout);
}

std::unique_ptr<Log> MakeStderrLog(const std::string& program, LogLevel lowest) {
  return std::make_unique<StderrLog>(program, lowest);
}

}  // namespace mccs
