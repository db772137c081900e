// A clock that moves when it is told to.
#ifndef MCCS_TESTS_SIM_SIM_CLOCK_H_
#define MCCS_TESTS_SIM_SIM_CLOCK_H_

#include "base/check.h"
#include "base/clock.h"

namespace mccs {

// THREAD: one.
class SimClock final : public Clock {
 public:
  MonotonicNs Now() const override { return now_; }
  // REQUIRES: now ≥ Now().
  void Set(MonotonicNs now) {
    MCCS_CHECK(now >= now_);
    now_ = now;
  }

 private:
  MonotonicNs now_ = kNsPerSec;  // not 0, so that nobody takes 0 for "now"
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_CLOCK_H_
