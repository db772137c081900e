#include "base/log_level.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace mccs {

absl::StatusOr<LogLevel> ParseLogLevel(std::string_view word) {
  if (word == "debug") return LogLevel::kDebug;
  if (word == "info") return LogLevel::kInfo;
  if (word == "warning") return LogLevel::kWarning;
  if (word == "error") return LogLevel::kError;
  return absl::InvalidArgumentError(absl::StrCat("invalid log level '", std::string(word),
                                                 "': expected debug, info, warning or error"));
}

}  // namespace mccs
