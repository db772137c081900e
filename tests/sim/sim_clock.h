// A clock that only the test advances, and a clock at a fixed offset from another one.
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
  MonotonicNs now_ = kNsPerSec;  // not 0, so that 0 is never the current time
};

// Another clock's time plus a fixed offset, in ns.
class OffsetClock final : public Clock {
 public:
  // LIFETIME: `of` outlives this.
  OffsetClock(const Clock& of, int64_t offset_ns) : of_(of), offset_ns_(offset_ns) {}
  MonotonicNs Now() const override { return of_.Now() + offset_ns_; }
  // The other clock's time when this clock shows `time`.
  MonotonicNs ToBaseClock(MonotonicNs time) const { return time - offset_ns_; }

 private:
  const Clock& of_;
  const int64_t offset_ns_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_CLOCK_H_
