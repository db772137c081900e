// Time is injected, so that the simulator can control it.
#ifndef MCCS_BASE_CLOCK_H_
#define MCCS_BASE_CLOCK_H_

#include <cstdint>
#include <limits>

namespace mccs {

// Nanoseconds of a monotonic clock with an arbitrary origin.
using MonotonicNs = int64_t;

// A time that does not come.
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

}  // namespace mccs

#endif  // MCCS_BASE_CLOCK_H_
