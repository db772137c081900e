#include "service/engine_loop.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <limits>

namespace mccs {

void EngineLoop::Run(const Readiness& stop) {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);  // else the kernel adds 50 µs to each short sleep
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
  if (idle_ns < kSpinNs) return false;
  switch (daemon_.urgency()) {
    case Urgency::kSpin:
      if (idle_ns < kYieldNs) return Yield();
      return Sleep(kRunningSleepNs);
    case Urgency::kBackOff:
      if (idle_ns < kBackOffAfterNs) return Yield();
      return Sleep(std::clamp(idle_ns, kBackOffMinNs, kBackOffMaxNs));
    case Urgency::kSleep:
      if (idle_ns < kLingerNs) return Yield();
      return Sleep(std::numeric_limits<int64_t>::max());
  }
  return false;
}

bool EngineLoop::Yield() {
  sched_yield();
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
