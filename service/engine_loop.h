// The engine: runs the daemon's turns and waits between them. It spins while work runs, backs off
// while a GPU may write a word without ringing the doorbell, and sleeps otherwise.
//
// clang-format off
//   progress ──► next turn at once
//   none, by the time since the last progress and by the daemon's urgency: turns without a pause
//   for kSpinNs, then
//     kSpin:    turns with sched_yield, after kYieldNs with sleeps of kRunningSleepNs (bytes end
//               them)
//     kBackOff: turns with sched_yield, after kBackOffAfterNs with sleeps of kBackOffMinNs,
//               doubling up to kBackOffMaxNs
//     kSleep:   turns with sched_yield for kLingerNs (a job's next small call may follow), then
//               sleep
// clang-format on
//
// Yielding begins early: the thread that the daemon waits for may need its core. If no thread is
// waiting, a yield costs less than a turn.
//
// THREAD: one, the caller of Run.
#ifndef MCCS_SERVICE_ENGINE_LOOP_H_
#define MCCS_SERVICE_ENGINE_LOOP_H_

#include <memory>

#include "base/clock.h"
#include "base/reactor.h"
#include "service/counters.h"
#include "service/daemon.h"

namespace mccs {

inline constexpr int64_t kSpinNs = 1 * kNsPerUs;
inline constexpr int64_t kLingerNs = 50 * kNsPerUs;
inline constexpr int64_t kBackOffAfterNs = 50 * kNsPerUs;
inline constexpr int64_t kYieldNs = 500 * kNsPerUs;
inline constexpr int64_t kRunningSleepNs = 100 * kNsPerUs;
inline constexpr int64_t kBackOffMinNs = 20 * kNsPerUs;
inline constexpr int64_t kBackOffMaxNs = 200 * kNsPerUs;
inline constexpr unsigned long kTimerSlackNs = 1 * kNsPerUs;

class EngineLoop {
 public:
  EngineLoop(Daemon& daemon, Reactor& reactor, const Clock& clock)
      : daemon_(daemon), reactor_(reactor), clock_(clock) {}

  // Runs until descriptor `stop` is readable.
  void Run(const Readiness& stop);

 private:
  void Count(MonotonicNs now, bool moved);
  // Returns true if a descriptor ended the wait.
  bool Wait(int64_t idle_ns);
  bool Yield();
  bool Sleep(int64_t timeout_ns);

  Daemon& daemon_;
  Reactor& reactor_;
  const Clock& clock_;
  const std::shared_ptr<DaemonCounters> counters_ = daemon_.counters();
  MonotonicNs started_ = 0;
  int64_t asleep_ns_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_ENGINE_LOOP_H_
