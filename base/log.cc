#include "base/log.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

class NullLog final : public Log {
 protected:
  bool Enabled(LogLevel) const override { return false; }
  void Write(LogLevel, std::string_view) override {}
};

}  // namespace

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
