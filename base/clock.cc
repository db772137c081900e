#include "base/clock.h"

#include <ctime>

namespace mccs {

MonotonicNs SystemClock::Now() const {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsPerSec + now.tv_nsec;
}

UnixNs SystemWallClock::Now() const {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kNsPerSec + now.tv_nsec;
}

}  // namespace mccs
