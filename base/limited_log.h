// The log of one source, for example of all that a tenant's communicators have to say: its lines
// are limited, so that they do not hide those about others.
//
// OWNER: the component that logs. THREAD: the owner's only.
#ifndef MCCS_BASE_LIMITED_LOG_H_
#define MCCS_BASE_LIMITED_LOG_H_

#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/limited_warnings.h"
#include "base/log.h"

namespace mccs {

class LimitedLog final : public Log {
 public:
  // LIFETIME: `lines` and `clock` outlive this. All logs with the same `source` share a limit.
  LimitedLog(LimitedWarnings& lines, std::string source, const Clock& clock)
      : lines_(lines), source_(std::move(source)), clock_(clock) {}

 private:
  bool Enabled(LogLevel level) const override { return level != LogLevel::kDebug; }
  void Write(LogLevel level, std::string_view line) override {
    lines_.Write(source_, std::string(line), clock_.Now(), level);
  }

  LimitedWarnings& lines_;
  const std::string source_;
  const Clock& clock_;
};

}  // namespace mccs

#endif  // MCCS_BASE_LIMITED_LOG_H_
