// The process of a lab that owns its daemons (supervisor.h has the picture).
#ifndef MCCS_LAB_WARDEN_H_
#define MCCS_LAB_WARDEN_H_

#include <functional>

#include "absl/status/status.h"
#include "base/clock.h"
#include "lab/lab_state.h"
#include "lab/signals.h"
#include "lab/supervisor.h"

namespace mccs::lab {

// LIFETIME: the daemons end with Stop(), or when this process dies.
// THREAD: one.
class Warden {
 public:
  // REQUIRES: the lab's folder exists and is held by this process.
  Warden(const LabPlan& plan, LabPaths paths, pid_t keeper, SignalWatch* signals);

  // Lays the network, where there is one, starts the controller, then all hosts, and returns when
  // all are ready. kCancelled: told to
  // stop.
  absl::Status Start();

  // Keeps the record of the daemons true until a signal says stop.
  void Watch();

  // Stops the hosts, then the controller: politely, then by force. Then the network goes.
  void Stop();

 private:
  void AddDaemon(std::string name, std::string address, int32_t gpus);
  absl::Status StartNetwork();
  // For hosts that share the machine's network.
  absl::Status WriteHostsFile();
  absl::Status StartDaemon(DaemonState* daemon, const std::string& program);
  // Ranges of state_.daemons, the last excluded.
  absl::Status AwaitReady(size_t first, size_t last);
  void StopDaemons(size_t first, size_t last);
  // Takes note of who has ended. True when a signal has told us to stop.
  bool HandleSignals();
  bool AnyRuns(size_t first, size_t last) const;
  void Pause(int timeout_ms);

  const LabPlan& plan_;
  const LabPaths paths_;
  SignalWatch& signals_;
  SystemClock clock_;
  LabState state_;
};

}  // namespace mccs::lab

#endif  // MCCS_LAB_WARDEN_H_
