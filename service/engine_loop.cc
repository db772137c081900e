#include "service/engine_loop.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <limits>

namespace mccs {

void EngineLoop::Run(const Readiness& stop) {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);  // The kernel's default adds 50 µs to each short sleep.
  started_ = clock_.Now();
  MonotonicNs last_move = started_;
  bool woken = false;
  while (!stop.readable) {
    const bool moved = daemon_.Poll(woken);
    const MonotonicNs now = clock_.Now();
    Count(now, moved);
    if (moved) {
      woken = false;
      last_move = now;
      continue;
    }
    woken = Wait(now - last_move);
  }
}

void EngineLoop::Count(MonotonicNs now, bool moved) {
  counters_->turns.Add(1);
  if (moved) counters_->busy_turns.Add(1);
  counters_->awake_ns.RaiseTo(static_cast<uint64_t>(now - started_ - asleep_ns_));
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
  const MonotonicNs began = clock_.Now();
  const MonotonicNs deadline = daemon_.NextDeadline();
  const int64_t until = deadline == std::numeric_limits<MonotonicNs>::max()
                            ? std::numeric_limits<int64_t>::max()
                            : std::max<int64_t>(deadline - began, 0);
  timeout_ns = std::min(timeout_ns, until);
  bool woken = false;
  if (!daemon_.PrepareSleep()) {
    woken = reactor_.Wait(timeout_ns == std::numeric_limits<int64_t>::max() ? -1 : timeout_ns) > 0;
  }
  daemon_.EndSleep();
  counters_->sleeps.Add(1);
  asleep_ns_ += clock_.Now() - began;
  return woken;
}

}  // namespace mccs
