#include "lab/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "lab/child_processes.h"
#include "lab/launcher.h"

namespace mccs::lab {
namespace {

constexpr int64_t kStopDeadlineNs = 30 * kNsPerSec;
constexpr int kStopPollMs = 10;
// The report to `up` that all daemons are ready; any other report is an error message.
constexpr char kReadyReport[] = "ready";

bool Report(int fd, std::string_view text) {
  return write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Leaves the caller's session and closes its descriptors, so that readers of its pipes see their
// end. Returns the new descriptor of `report`.
int DetachFromCaller(int report) {
  setsid();
  (void)!chdir("/");
  const int kept = fcntl(report, F_DUPFD_CLOEXEC, 3);
  const int nothing = open("/dev/null", O_RDWR);
  for (int standard = 0; standard < 3; ++standard) dup2(nothing, standard);
  if (kept > 3) close_range(3, kept - 1, 0);
  close_range(kept + 1, ~0U, 0);
  signal(SIGPIPE, SIG_IGN);
  return kept;
}

// Main function of the launcher. Returns its exit status.
int RunLauncher(const LabPlan& plan, const LabPaths& paths, pid_t supervisor, int report) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  absl::StatusOr<SignalWatch> signals = SignalWatch::Create();
  absl::Status status = signals.status();
  if (signals.ok() && getppid() == supervisor) {
    Launcher launcher(plan, paths, supervisor, report, &*signals);
    status = launcher.Start();
    bool delivered = Report(report, status.ok() ? kReadyReport : std::string(status.message()));
    // If the report fails, `up` was interrupted: stop the lab.
    if (status.ok() && delivered) launcher.Watch();
    launcher.Stop();
  } else {
    Report(report, std::string(status.message()));
  }
  if (getppid() != supervisor) RemoveLabDirectory(paths).IgnoreError();
  return status.ok() ? 0 : 1;
}

// Waits until the launcher has ended.
void WaitForLauncher(pid_t launcher, SignalWatch* signals) {
  while (true) {
    pollfd waiting{signals->fd(), POLLIN, 0};
    poll(&waiting, 1, -1);
    while (std::optional<Signal> signal = signals->Take()) {
      if (signal->number != SIGCHLD) kill(launcher, SIGTERM);
    }
    for (const EndedChild& ended : ReapChildren()) {
      if (ended.pid == launcher) return;
    }
  }
}

int RunSupervisor(const LabPlan& plan, const LabDirectories& directories, int report) {
  absl::StatusOr<UniqueFd> hold = directories.CreateAndLock(plan.name);
  absl::StatusOr<SignalWatch> signals = SignalWatch::Create();
  absl::Status status = hold.ok() ? signals.status() : hold.status();
  if (!status.ok()) {
    Report(report, std::string(status.message()));
    return 1;
  }
  AdoptOrphans();
  const LabPaths paths = directories.PathsOf(plan.name);
  const pid_t supervisor = getpid();
  const pid_t launcher = fork();
  if (launcher == 0) _exit(RunLauncher(plan, paths, supervisor, report));
  if (launcher < 0) Report(report, "cannot fork");
  if (launcher > 0) WaitForLauncher(launcher, &*signals);
  KillDescendants();
  RemoveLabDirectory(paths).IgnoreError();
  return 0;
}

}  // namespace

absl::Status StartLab(const LabPlan& plan, const LabDirectories& directories) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t supervisor = fork();
  if (supervisor < 0) return absl::ErrnoToStatus(errno, "cannot fork");
  if (supervisor == 0) _exit(RunSupervisor(plan, directories, DetachFromCaller(writer.get())));
  writer.Reset();

  std::string report;
  char piece[4096];
  ssize_t got;
  // An error message ends with the end of the supervisor, after it has removed the lab.
  while (report != kReadyReport &&
         ((got = read(reader.get(), piece, sizeof(piece))) > 0 || (got < 0 && errno == EINTR))) {
    if (got > 0) report.append(piece, got);
  }
  if (report == kReadyReport) return absl::OkStatus();
  return absl::UnavailableError(
      report.empty() ? "cannot start the lab: its supervisor process was killed; look in the "
                       "kernel's log for the out-of-memory killer, and start the lab again"
                     : report);
}

absl::Status StopLab(const std::string& name, const LabDirectories& directories) {
  LabPaths paths = directories.PathsOf(name);
  MCCS_ASSIGN_OR_RETURN(bool is_up, directories.IsLocked(name));
  if (!is_up) return absl::NotFoundError(absl::StrCat("lab '", name, "' does not exist"));
  absl::StatusOr<LabState> state = ReadState(paths);
  // The state file is missing for a moment while a lab starts or stops.
  if (state.ok() && state->supervisor_pid > 0) kill(state->supervisor_pid, SIGTERM);
  SystemClock clock;
  const MonotonicNs deadline = clock.Now() + kStopDeadlineNs;
  while (true) {
    MCCS_ASSIGN_OR_RETURN(is_up, directories.IsLocked(name));
    if (!is_up) return absl::OkStatus();
    if (clock.Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("lab '", name, "' is still running after ",
                                                      kStopDeadlineNs / kNsPerSec, " s; see ",
                                                      paths.root));
    }
    poll(nullptr, 0, kStopPollMs);
  }
}

}  // namespace mccs::lab
