#include "base/limited_warnings.h"

namespace mccs {

void LimitedWarnings::Write(const std::string& source, const std::string& line, MonotonicNs now,
                            LogLevel level) {
  constexpr int64_t kMinuteNs = 60 * kNsPerSec;
  absl::erase_if(minutes_, [now](const auto& entry) { return entry.second.ends <= now; });
  if (minutes_.size() >= kMaxSources && !minutes_.contains(source)) return;
  Minute& minute = minutes_.try_emplace(source, Minute{.ends = now + kMinuteNs}).first->second;
  if (minute.lines == per_minute_) return;
  ++minute.lines;
  const std::string more =
      minute.lines == per_minute_
          ? absl::StrCat("; further lines for this ", kind_, " are suppressed for a minute")
          : "";
  switch (level) {
    case LogLevel::kDebug:
      return log_.Debug(line, more);
    case LogLevel::kInfo:
      return log_.Info(line, more);
    case LogLevel::kWarning:
      return log_.Warning(line, more);
    case LogLevel::kError:
      return log_.Error(line, more);
  }
}

}  // namespace mccs
