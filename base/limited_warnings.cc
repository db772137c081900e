#include "base/limited_warnings.h"

namespace mccs {

void LimitedWarnings::Write(const std::string& source, const std::string& line, MonotonicNs now) {
  constexpr int64_t kMinuteNs = 60 * kNsPerSec;
  absl::erase_if(minutes_, [now](const auto& entry) { return entry.second.ends <= now; });
  if (minutes_.size() >= kMaxSources && !minutes_.contains(source)) return;
  Minute& minute = minutes_.try_emplace(source, Minute{.ends = now + kMinuteNs}).first->second;
  if (minute.lines == kPerMinute) return;
  ++minute.lines;
  if (minute.lines < kPerMinute) return log_.Warning(line);
  log_.Warning(line, "; further warnings for this ", kind_, " are suppressed for a minute");
}

}  // namespace mccs
