#include "service/engine_loop.h"

#include <sched.h>

#include <algorithm>
#include <limits>

namespace mccs {

void EngineLoop::Run(const Readiness& stop) {
  MonotonicNs last_move = clock_.Now();
  bool woken = false;
  while (!stop.readable) {
    if (daemon_.Poll(woken)) {
      woken = false;
      last_move = clock_.Now();
      continue;
    }
    woken = Wait(clock_.Now() - last_move);
  }
}

bool EngineLoop::Wait(int64_t idle_ns) {
  switch (daemon_.urgency()) {
    case Urgency::kSpin:
      if (idle_ns < kSpinNs) return false;
      if (idle_ns < kYieldNs) {
        sched_yield();
        return false;
      }
      return Sleep(kRunningSleepNs);
    case Urgency::kBackOff:
      if (idle_ns < kSpinNs) return false;
      return Sleep(std::clamp(idle_ns, kBackOffMinNs, kBackOffMaxNs));
    case Urgency::kSleep:
      if (idle_ns < kLingerNs) return false;
      return Sleep(std::numeric_limits<int64_t>::max());
  }
  return false;
}

bool EngineLoop::Sleep(int64_t timeout_ns) {
  const MonotonicNs deadline = daemon_.NextDeadline();
  const int64_t until = deadline == std::numeric_limits<MonotonicNs>::max()
                            ? std::numeric_limits<int64_t>::max()
                            : std::max<int64_t>(deadline - clock_.Now(), 0);
  timeout_ns = std::min(timeout_ns, until);
  bool woken = false;
  if (!daemon_.PrepareSleep()) {
    woken = reactor_.Wait(timeout_ns == std::numeric_limits<int64_t>::max() ? -1 : timeout_ns) > 0;
  }
  daemon_.EndSleep();
  return woken;
}

}  // namespace mccs
