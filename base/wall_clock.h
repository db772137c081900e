// The time of day, injected like base/clock.h. For display only: it may jump, so it is not used to
// measure durations.
#ifndef MCCS_BASE_WALL_CLOCK_H_
#define MCCS_BASE_WALL_CLOCK_H_

#include <cstdint>

namespace mccs {

// Nanoseconds since 1970-01-01 00:00 UTC.
using UnixNs = int64_t;

// THREAD: any.
class WallClock {
 public:
  virtual ~WallClock() = default;
  virtual UnixNs Now() const = 0;
};

// CLOCK_REALTIME.
class SystemWallClock final : public WallClock {
 public:
  UnixNs Now() const override;
};

}  // namespace mccs

#endif  // MCCS_BASE_WALL_CLOCK_H_
