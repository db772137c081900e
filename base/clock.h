// Time is injected, so that the simulator can control it.
#ifndef MCCS_BASE_CLOCK_H_
#define MCCS_BASE_CLOCK_H_

#include <cstdint>
#include <limits>

namespace mccs {

// Nanoseconds of a monotonic clock with an arbitrary origin.
using MonotonicNs = int64_t;

// No deadline: later than every other time.
inline constexpr MonotonicNs kNever = std::numeric_limits<MonotonicNs>::max();

inline constexpr int64_t kNsPerUs = 1'000;
inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerSec = 1'000'000'000;

// THREAD: any.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicNs Now() const = 0;
};

// CLOCK_MONOTONIC.
class SystemClock final : public Clock {
 public:
  MonotonicNs Now() const override;
};

// Nanoseconds since 1970-01-01 00:00 UTC.
using UnixNs = int64_t;

// The time of day. For display only: it may jump, so it is not used to measure durations.
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

#endif  // MCCS_BASE_CLOCK_H_
