// Suppresses repeated log lines.
#ifndef MCCS_BASE_REPEATED_MESSAGE_H_
#define MCCS_BASE_REPEATED_MESSAGE_H_

#include <string>

#include "base/clock.h"

namespace mccs {

// Passes a message when it changes, and again after a minute: a persistent error stays visible and
// does not fill the log.
class RepeatedMessage {
 public:
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

#endif  // MCCS_BASE_REPEATED_MESSAGE_H_
