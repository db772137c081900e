// A job: processes that start and end together.
#ifndef MCCS_LAB_JOB_H_
#define MCCS_LAB_JOB_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "lab/child_processes.h"
#include "lab/lab_state.h"
#include "lab/spawn.h"

namespace mccs::lab {

// Longer lines are split into parts, each with the prefix.
inline constexpr size_t kMaxLineBytes = 64 * 1024;

// Adds a prefix to each line of a stream that arrives in arbitrary pieces, so that many ranks can
// share a terminal without mixing lines.
class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}

  // Returns all lines that are complete now.
  std::string Take(std::string_view piece);

  // At the end of the stream: returns the rest as a line.
  std::string Finish();

 private:
  std::string prefix_;
  std::string unfinished_;
};

struct JobProcess {
  std::string label;   // "rank 3 on h1", for messages
  std::string prefix;  // "[3] ", before each line of its output
  SpawnOptions spawn;
};

struct JobOptions {
  // True: several processes, each in its own process group and without input; their output lines
  // have prefixes. False: one process with this program's terminal.
  bool prefixed = true;
  // After a failure or a signal, the other processes get SIGTERM after this time, and SIGKILL after
  // the same time again.
  int64_t grace_ns = 5 * kNsPerSec;
  // Descriptors for prefixed lines.
  int output = 1;
  int error = 2;
  // The job ends when this process ends. 0: none.
  pid_t supervisor = 0;
};

// Runs until the last process has ended, then kills all their descendants. Exit status: that of the
// first process that failed (128 + n after signal n), else 0.
//
// THREAD: the program's only thread. Forwards SIGINT, SIGTERM and SIGHUP to the processes; a second
// one kills them.
class Job {
 public:
  explicit Job(JobOptions options) : options_(options) {}

  // Error: a process cannot be started; the processes that had started are killed.
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
  // Stages of the job's end; AdvanceStage moves on when stage_ends_ is reached.
  enum class Stage { kRunning, kGrace, kTerminated, kKilled };

  absl::Status Start(const JobProcess& process);
  void WaitForEvent();
  void HandleSignals();
  void ReapProcesses();
  void ForwardOutput();
  // Reads available data; false at the end of the stream.
  bool Forward(Stream* stream);
  void Print(int to, std::string_view text);
  // Begins to end the job, unless it has begun, and sends `signal_number` (0: none).
  void BeginShutdown(int signal_number);
  void AdvanceStage();
  void SignalAll(int signal_number);
  bool AnyRunning() const;

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

// Assigns the ranks of a job to hosts.

struct PlacedRank {
  const DaemonState* host = nullptr;  // LIFETIME: that of the LabState
  int32_t host_index = 0;             // among the hosts of the job
  int32_t local_rank = 0;
  int32_t local_world_size = 0;
};

struct PlacementOptions {
  int32_t ranks = 0;               // total; 0: as many as fit
  int32_t ranks_per_host = 0;      // 0: one per GPU of the host
  std::vector<std::string> hosts;  // in this order; empty: all, in the lab's order
};

// By rank; fills one host after the other. kInvalidArgument: the ranks do not fit. kNotFound: no
// such host.
absl::StatusOr<std::vector<PlacedRank>> PlaceRanks(const LabState& lab,
                                                   const PlacementOptions& options);

}  // namespace mccs::lab

#endif  // MCCS_LAB_JOB_H_
