// Rate-limited warnings about peers or tenants: a source that repeats an error cannot hide the rest
// of the log.
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

class LimitedWarnings {
 public:
  // Lines per source and minute: enough for a job whose eight processes fail for different reasons.
  static constexpr int kPerMinute = 16;
  // Maximum number of sources with lines in one minute; lines of further sources are dropped.
  static constexpr size_t kMaxSources = 1024;

  // `kind`: one word for what a source is, for the log. LIFETIME: `log` outlives this.
  LimitedWarnings(Log& log, std::string kind) : log_(log), kind_(std::move(kind)) {}

  // Logs the line, unless the source is over its limit; the last line mentions the suppression.
  void Write(const std::string& source, const std::string& line, MonotonicNs now);

 private:
  struct Minute {
    MonotonicNs ends = 0;
    int lines = 0;
  };

  Log& log_;
  const std::string kind_;
  absl::flat_hash_map<std::string, Minute> minutes_;  // running at the last call
};

}  // namespace mccs

#endif  // MCCS_BASE_LIMITED_WARNINGS_H_
