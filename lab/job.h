// A job: processes that start together, are watched together and end together.
#ifndef MCCS_LAB_JOB_H_
#define MCCS_LAB_JOB_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "lab/line_prefixer.h"
#include "lab/signals.h"
#include "lab/spawn.h"

namespace mccs::lab {

struct JobProcess {
  std::string label;   // "rank 3 on h1", for messages
  std::string prefix;  // "[3] ", before each line of its output
  SpawnOptions spawn;
};

struct JobOptions {
  // True: several processes, their output by lines with prefixes, no input, each a group of its
  // own. False: one process that has our terminal, as if it had been started in our place.
  bool prefixed = true;
  // After a failure or a signal the others get this long to end by themselves, then SIGTERM; then
  // this long again, then SIGKILL.
  int64_t grace_ns = 5 * kNsPerSec;
  // Where prefixed lines go.
  int output = 1;
  int error = 2;
  // The lab ends when this process does: so does the job. 0: nobody to watch.
  pid_t supervisor = 0;
};

// Runs until the last process has ended; nothing that descends from them is left then. The exit
// status: of the first process that failed, 128 + n after signal n, else 0.
//
// THREAD: the only one. SIGINT, SIGTERM and SIGHUP go on to the processes; a second one kills them.
class Job {
 public:
  explicit Job(JobOptions options) : options_(options) {}

  // An error of the start alone: then what had started has been killed.
  absl::StatusOr<int> Run(const std::vector<JobProcess>& processes);

 private:
  struct Stream {
    UniqueFd from;
    int to;
    LinePrefixer prefixer;
  };
  struct Process {
    std::string label;
    pid_t pid = 0;  // 0 when it has ended
  };
  // Who waits for the end of the job, and what happens when its time comes.
  enum class Stage { kRunning, kGrace, kTerminated, kKilled };

  absl::Status Start(const JobProcess& process);
  void AwaitEvent();
  void HandleSignals();
  void HandleEnded();
  void ForwardOutput();
  // Reads what is there; false at the end of the stream.
  bool Forward(Stream* stream);
  void Print(int to, std::string_view text);
  // Begins the end of the job, if it has not begun, by sending `signal_number` (0: nothing yet).
  void BeginEnd(int signal_number);
  void AdvanceStage();
  void SignalAll(int signal_number);
  bool AnyRuns() const;

  const JobOptions options_;
  SystemClock clock_;
  std::optional<SignalWatch> signals_;
  UniqueFd supervisor_;
  std::vector<Process> processes_;
  std::vector<Stream> streams_;
  std::optional<int> failure_;
  Stage stage_ = Stage::kRunning;
  MonotonicNs stage_ends_ = 0;
};

}  // namespace mccs::lab

#endif  // MCCS_LAB_JOB_H_
