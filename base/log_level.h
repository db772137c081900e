// A log level by its name, as files and command lines give it.
#ifndef MCCS_BASE_LOG_LEVEL_H_
#define MCCS_BASE_LOG_LEVEL_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "base/log.h"

namespace mccs {

// "debug", "info", "warning", "error". kInvalidArgument with the word.
absl::StatusOr<LogLevel> ParseLogLevel(std::string_view word);

}  // namespace mccs

#endif  // MCCS_BASE_LOG_LEVEL_H_
