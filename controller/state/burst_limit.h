// A rate limit: a burst, then one per period.
//
// OWNER: the user of the limit. THREAD: the owner's only.
#ifndef MCCS_CONTROLLER_STATE_BURST_LIMIT_H_
#define MCCS_CONTROLLER_STATE_BURST_LIMIT_H_

#include <algorithm>
#include <cstdint>

namespace mccs {

class BurstLimit {
 public:
  // REQUIRES: burst > 0, period_ns > 0.
  constexpr BurstLimit(int burst, int64_t period_ns)
      : burst_(burst), period_ns_(period_ns), tokens_(burst) {}

  // Takes one token; false: none is left. `now`: on one clock. If that is set back, periods begin
  // again.
  bool Take(int64_t now) {
    if (tokens_ == burst_ || now < refilled_) refilled_ = now;
    const int64_t periods = (now - refilled_) / period_ns_;
    tokens_ = std::min(burst_, tokens_ + periods);
    refilled_ += periods * period_ns_;
    if (tokens_ == 0) return false;
    --tokens_;
    return true;
  }

  // Whether all tokens would be there at `now`.
  bool IsFull(int64_t now) const { return tokens_ + (now - refilled_) / period_ns_ >= burst_; }

 private:
  const int64_t burst_;
  const int64_t period_ns_;
  int64_t tokens_;
  int64_t refilled_ = 0;
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_BURST_LIMIT_H_
