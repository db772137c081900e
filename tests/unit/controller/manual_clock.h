// A clock that only the test advances.
#ifndef MCCS_TESTS_UNIT_CONTROLLER_MANUAL_CLOCK_H_
#define MCCS_TESTS_UNIT_CONTROLLER_MANUAL_CLOCK_H_

#include "base/clock.h"

namespace mccs {

class ManualClock final : public Clock {
 public:
  MonotonicNs Now() const override { return now; }
  MonotonicNs now = 1000 * kNsPerSec;
};

class ManualWallClock final : public WallClock {
 public:
  UnixNs Now() const override { return now; }
  UnixNs now = 1'800'000'000 * kNsPerSec;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_CONTROLLER_MANUAL_CLOCK_H_
