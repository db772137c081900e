// Limits of log lines, so that an error that repeats cannot hide the rest of the log.
//
// OWNER: the component that logs. THREAD: the owner's only.
#ifndef MCCS_BASE_LIMITED_WARNINGS_H_
#define MCCS_BASE_LIMITED_WARNINGS_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/log.h"

namespace mccs {

// Limits lines about peers or tenants per source.
class LimitedWarnings {
 public:
  // Lines per source and minute: enough for a job whose eight processes fail for different reasons.
  static constexpr int kPerMinute = 16;
  // Maximum number of sources with lines in one minute; lines of further sources are dropped.
  static constexpr size_t kMaxSources = 1024;

  // `kind`: one word for what a source is, for the log. LIFETIME: `log` outlives this.
  LimitedWarnings(Log& log, std::string kind, int per_minute = kPerMinute)
      : log_(log), kind_(std::move(kind)), per_minute_(per_minute) {}

  // Logs the line, unless the source is over its limit; the last line mentions the suppression.
  void Write(const std::string& source, const std::string& line, MonotonicNs now,
             LogLevel level = LogLevel::kWarning);

 private:
  struct Minute {
    MonotonicNs ends = 0;
    int lines = 0;
  };

  Log& log_;
  const std::string kind_;
  const int per_minute_;
  absl::flat_hash_map<std::string, Minute> minutes_;  // running at the last call
};

// Passes a message when it changes, and again after a minute: a persistent error stays visible and
// does not fill the log.
class RepeatedMessage {
 public:
  // Whether the last one was logged less than a minute ago.
  bool IsRecent(MonotonicNs now) const { return now < again_at_; }
  // Whether to log the message now; true counts as logged.
  bool IsDue(const std::string& message, MonotonicNs now) {
    if (message == last_ && now < again_at_) return false;
    last_ = message;
    again_at_ = now + kRepeatNs;
    return true;
  }

 private:
  static constexpr int64_t kRepeatNs = 60 * kNsPerSec;

  std::string last_;
  MonotonicNs again_at_ = 0;
};

}  // namespace mccs

#endif  // MCCS_BASE_LIMITED_WARNINGS_H_
