// The engine: runs the daemon's turns and waits between them. It spins while work runs, backs off
// while a GPU may write a word without ringing the doorbell, and sleeps otherwise.
//
// clang-format off
//   progress ──► next turn at once
//   none, by the time since the last progress and by the daemon's urgency: turns without a pause
//   for kSpinNs, then
//     kSpin:    turns with a yield, after kYieldNs with sleeps of kRunningSleepNs (bytes end them)
//     kBackOff: turns with a yield, after kBackOffAfterNs with sleeps as long as the time since the
//               last progress, which they double, up to kBackOffMaxNs
//     kSleep:   turns with a yield for kLingerNs (a job's next small call may follow), then sleep
// clang-format on
//
// Yielding begins early: the thread that the daemon waits for may need its core. If no thread is
// waiting, a yield costs less than a turn.
//
// No work is lost before a sleep: a tenant posts work and then checks whether the daemon sleeps;
// PrepareSleep marks it as asleep and then checks for work. One of the two sees the other. A
// doorbell that rings before the reactor waits ends its wait.
//
// A service manager may watch the engine (base/service_notification.h). The loop gives a sign of
// life after a turn, and limits its sleeps to give the next one in time. A turn that does not end
// gives none.
//
// A template, so that tests hand in their own daemon and reactor and a turn has no virtual call.
//
// THREAD: one, the caller of Run.
#ifndef MCCS_SERVICE_ENGINE_LOOP_H_
#define MCCS_SERVICE_ENGINE_LOOP_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/reactor.h"
#include "service/counters.h"
#include "service/urgency.h"

namespace mccs {

inline constexpr int64_t kSpinNs = 1 * kNsPerUs;
inline constexpr int64_t kLingerNs = 50 * kNsPerUs;
inline constexpr int64_t kBackOffAfterNs = 50 * kNsPerUs;
inline constexpr int64_t kYieldNs = 500 * kNsPerUs;
inline constexpr int64_t kRunningSleepNs = 100 * kNsPerUs;
inline constexpr int64_t kBackOffMaxNs = 200 * kNsPerUs;

// How long to sleep after a turn without progress; 0: only yield; kNever: no limit. `idle_ns`: the
// time since the last progress. REQUIRES: at least kSpinNs.
constexpr int64_t SleepAfter(int64_t idle_ns, Urgency urgency) {
  switch (urgency) {
    case Urgency::kSpin:
      return idle_ns < kYieldNs ? 0 : kRunningSleepNs;
    case Urgency::kBackOff:
      return idle_ns < kBackOffAfterNs ? 0 : std::min(idle_ns, kBackOffMaxNs);
    case Urgency::kSleep:
      return idle_ns < kLingerNs ? 0 : kNever;
  }
  return 0;
}

// The loop calls `give` after its first turn, and then at this interval. It must not block.
struct SignOfLife {
  int64_t every_ns = kNever;
  std::function<void()> give = {};
};

// Daemon: as service/daemon.h; Reactor: as base/reactor.h.
template <typename Daemon, typename Reactor>
class EngineLoop {
 public:
  // `yield` gives the processor to another thread. LIFETIME: all outlive the loop.
  EngineLoop(Daemon& daemon, Reactor& reactor, const Clock& clock, void (*yield)(),
             SignOfLife life = {})
      : daemon_(daemon), reactor_(reactor), clock_(clock), yield_(yield), life_(std::move(life)) {}

  // Runs until descriptor `stop` is readable.
  void Run(const Readiness& stop) {
    started_ = clock_.Now();
    if (life_.every_ns != kNever) next_sign_ = started_;
    MonotonicNs last_move = started_;
    bool woken = false;
    while (!stop.readable) {
      const bool moved = daemon_.Poll(woken);
      const MonotonicNs now = clock_.Now();
      Count(now, moved);
      if (now >= next_sign_) {
        life_.give();
        next_sign_ = now + life_.every_ns;
      }
      if (moved) {
        woken = false;
        last_move = now;
        continue;
      }
      woken = Wait(now - last_move);
    }
  }

 private:
  void Count(MonotonicNs now, bool moved) {
    counters_->turns.Add(1);
    if (moved) counters_->busy_turns.Add(1);
    counters_->awake_ns.RaiseTo(static_cast<uint64_t>(now - started_ - asleep_ns_));
  }

  // Returns true if a descriptor ended the wait.
  bool Wait(int64_t idle_ns) {
    if (idle_ns < kSpinNs) return false;
    const int64_t sleep_ns = SleepAfter(idle_ns, daemon_.urgency());
    if (sleep_ns > 0) return Sleep(sleep_ns);
    yield_();
    return false;
  }

  bool Sleep(int64_t timeout_ns) {
    const MonotonicNs began = clock_.Now();
    const MonotonicNs deadline = std::min(daemon_.NextDeadline(), next_sign_);
    const int64_t until = deadline == kNever ? kNever : std::max<int64_t>(deadline - began, 0);
    timeout_ns = std::min(timeout_ns, until);
    bool woken = false;
    if (!daemon_.PrepareSleep()) {
      const GaugeShare asleep(counters_->asleep);
      woken = reactor_.Wait(timeout_ns == kNever ? -1 : timeout_ns) > 0;
    }
    daemon_.EndSleep();
    counters_->sleeps.Add(1);
    asleep_ns_ += clock_.Now() - began;
    return woken;
  }

  Daemon& daemon_;
  Reactor& reactor_;
  const Clock& clock_;
  void (*const yield_)();
  const SignOfLife life_;
  const std::shared_ptr<DaemonCounters> counters_ = daemon_.counters();
  MonotonicNs started_ = 0;
  MonotonicNs next_sign_ = kNever;
  int64_t asleep_ns_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_ENGINE_LOOP_H_
