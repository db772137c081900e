// The launcher of a lab: the process that owns its daemons (see lab/supervisor.h).
#ifndef MCCS_LAB_LAUNCHER_H_
#define MCCS_LAB_LAUNCHER_H_

#include <functional>

#include "absl/status/status.h"
#include "base/clock.h"
#include "lab/child_processes.h"
#include "lab/lab_state.h"
#include "lab/supervisor.h"

namespace mccs::lab {

// LIFETIME: the daemons end with Stop(), or when this process dies.
// THREAD: one.
class Launcher {
 public:
  // `caller`: a pipe to `mccs-lab up`. Start() ends when its reader has ended.
  // REQUIRES: the lab's directory exists and this process holds its lock.
  Launcher(const LabPlan& plan, LabPaths paths, pid_t supervisor, int caller, SignalWatch* signals);

  // Creates the network or the virtual machines, if any, starts the controller, then all hosts, and
  // returns when all are ready. kCancelled: stopped by a signal.
  absl::Status Start();

  // Updates the daemons' state until a signal to stop arrives.
  void Watch();

  // Stops the hosts, then the controller (SIGTERM, then SIGKILL), then the network or the virtual
  // machines.
  void Stop();

 private:
  void AddDaemon(std::string name, std::string address, int32_t gpus);
  absl::Status StartNetwork();
  // For hosts that share the machine's network.
  absl::Status WriteHostsFile();
  absl::Status StartDaemon(DaemonState* daemon, const std::string& program);
  absl::Status WaitUntilBooted();
  // Ranges [first, last) of state_.daemons.
  absl::Status WaitUntilReady(size_t first, size_t last);
  void StopDaemons(size_t first, size_t last);
  // Records daemons and virtual machines that have ended. True: a signal to stop arrived.
  bool HandleSignals();
  // While the lab starts: kCancelled if a signal to stop arrived or `mccs-lab up` has ended.
  absl::Status CheckCancelled();
  bool AnyRunning(size_t first, size_t last) const;
  void Pause(int timeout_ms);

  const LabPlan& plan_;
  const LabPaths paths_;
  const int caller_;
  SignalWatch& signals_;
  SystemClock clock_;
  LabState state_;
};

}  // namespace mccs::lab

#endif  // MCCS_LAB_LAUNCHER_H_
