// A clock that moves when it is told to, and those of hosts, which show something else.
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

// The time of another clock, and so much more.
class OffsetClock final : public Clock {
 public:
  // LIFETIME: `of` outlives this.
  OffsetClock(const Clock& of, int64_t offset_ns) : of_(of), offset_ns_(offset_ns) {}
  MonotonicNs Now() const override { return of_.Now() + offset_ns_; }
  // When this one shows `time`, on the other.
  MonotonicNs OnOther(MonotonicNs time) const { return time - offset_ns_; }

 private:
  const Clock& of_;
  const int64_t offset_ns_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_CLOCK_H_
