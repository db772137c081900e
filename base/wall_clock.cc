#include "base/wall_clock.h"

#include <ctime>

#include "base/clock.h"

namespace mccs {

UnixNs SystemWallClock::Now() const {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kNsPerSec + now.tv_nsec;
}

}  // namespace mccs
