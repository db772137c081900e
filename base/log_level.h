// Parses the name of a log level from files and command lines.
#ifndef MCCS_BASE_LOG_LEVEL_H_
#define MCCS_BASE_LOG_LEVEL_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "base/log.h"

namespace mccs {

// "debug", "info", "warning", "error". kInvalidArgument: names the word.
absl::StatusOr<LogLevel> ParseLogLevel(std::string_view word);

}  // namespace mccs

#endif  // MCCS_BASE_LOG_LEVEL_H_
