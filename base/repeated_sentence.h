// Suppresses repeated log lines.
#ifndef MCCS_BASE_REPEATED_SENTENCE_H_
#define MCCS_BASE_REPEATED_SENTENCE_H_

#include <string>

#include "base/clock.h"

namespace mccs {

// Passes a sentence when it changes, and again after a minute: a persistent error stays visible and
// does not fill the log.
class RepeatedSentence {
 public:
  // Whether to log the sentence now; true counts as logged.
  bool IsDue(const std::string& sentence, MonotonicNs now) {
    if (sentence == said_ && now < again_at_) return false;
    said_ = sentence;
    again_at_ = now + kRepeatNs;
    return true;
  }

 private:
  static constexpr int64_t kRepeatNs = 60 * kNsPerSec;

  std::string said_;
  MonotonicNs again_at_ = 0;
};

}  // namespace mccs

#endif  // MCCS_BASE_REPEATED_SENTENCE_H_
