// The engine: gives the daemon its turns and waits between them. It spins while work runs, backs off while
// a GPU may write a word without ringing, and sleeps otherwise.
//
//   moved ──► next turn at once
//   else, by how long nothing has moved and the daemon's urgency:
//     kSpin:    turns without a pause, then with sched_yield, then sleeps of kRunningSleepNs (bytes end them)
//     kBackOff: turns without a pause, then sleeps of kBackOffMinNs, doubling up to kBackOffMaxNs
//     kSleep:   turns without a pause for kLingerNs (a job's next small call is near), then sleep
//
// THREAD: one, the caller of Run.
#ifndef MCCS_SERVICE_ENGINE_LOOP_H_
#define MCCS_SERVICE_ENGINE_LOOP_H_

#include "base/clock.h"
#include "base/reactor.h"
#include "service/daemon.h"

namespace mccs {

inline constexpr int64_t kLingerNs = 50 * kNsPerUs;
inline constexpr int64_t kSpinNs = 20 * kNsPerUs;
inline constexpr int64_t kYieldNs = 500 * kNsPerUs;
inline constexpr int64_t kRunningSleepNs = 100 * kNsPerUs;
inline constexpr int64_t kBackOffMinNs = 20 * kNsPerUs;
inline constexpr int64_t kBackOffMaxNs = 200 * kNsPerUs;

class EngineLoop {
 public:
  EngineLoop(Daemon& daemon, Reactor& reactor, const Clock& clock)
      : daemon_(daemon), reactor_(reactor), clock_(clock) {}

  // Until `stop` shows a descriptor readable.
  void Run(const Readiness& stop);

 private:
  // True when a descriptor ended the wait.
  bool Wait(int64_t idle_ns);
  bool Sleep(int64_t timeout_ns);

  Daemon& daemon_;
  Reactor& reactor_;
  const Clock& clock_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_ENGINE_LOOP_H_
