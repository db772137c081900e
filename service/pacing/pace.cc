#include "service/pacing/pace.h"

namespace mccs {
namespace {

// Where in its period a time lies; windows may begin in the past and in the future.
int64_t PhaseOf(const SendWindows& windows, MonotonicNs now) {
  const int64_t phase =
      (now % windows.period_ns - windows.origin_ns % windows.period_ns) % windows.period_ns;
  return phase < 0 ? phase + windows.period_ns : phase;
}

}  // namespace

bool SendWindows::OpenAt(MonotonicNs now) const {
  return period_ns == 0 || PhaseOf(*this, now) < open_ns;
}

MonotonicNs SendWindows::NextOpening(MonotonicNs now) const {
  return period_ns == 0 ? now : now + period_ns - PhaseOf(*this, now);
}

}  // namespace mccs
