#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

#include "absl/strings/str_cat.h"

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

class StderrLog final : public Log {
 public:
  StderrLog(const std::string& program, LogLevel lowest)
      : logger_(program, std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %L %n[%P] %v");
    logger_.set_level(ToSpdlog(lowest));
    logger_.flush_on(spdlog::level::info);
  }

 protected:
  bool Enabled(LogLevel level) const override { return logger_.should_log(ToSpdlog(level)); }
  void Write(LogLevel level, std::string_view line) override {
    logger_.log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  }

 private:
  spdlog::logger logger_;
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
