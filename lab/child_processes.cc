#include "lab/child_processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace mccs::lab {
namespace {

// Killed processes' children are reparented to this process, one generation per round.
constexpr int kMaxRounds = 500;
constexpr timespec kRoundPause{0, 5'000'000};

std::vector<pid_t> Children() {
  std::ifstream file(absl::StrCat("/proc/self/task/", gettid(), "/children"));
  std::vector<pid_t> children;
  pid_t child;
  while (file >> child) children.push_back(child);
  return children;
}

}  // namespace

std::vector<EndedChild> ReapChildren() {
  std::vector<EndedChild> ended;
  int status = 0;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) ended.push_back({pid, status});
  return ended;
}

int ExitStatusOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string DescribeEnd(int wait_status) {
  if (WIFSIGNALED(wait_status)) return absl::StrCat("killed by signal ", WTERMSIG(wait_status));
  return absl::StrCat("exited with status ", WEXITSTATUS(wait_status));
}

void AdoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

UniqueFd OpenPidfd(pid_t pid) {
  // Raw system call: Debian 12's <sys/pidfd.h> cannot be linked from C++.
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

void KillDescendants() {
  for (int round = 0; round < kMaxRounds; ++round) {
    ReapChildren();
    std::vector<pid_t> children = Children();
    if (children.empty()) return;
    for (pid_t child : children) kill(child, SIGKILL);
    nanosleep(&kRoundPause, nullptr);
  }
}

absl::StatusOr<SignalWatch> SignalWatch::Create() {
  sigset_t watched;
  sigemptyset(&watched);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&watched, number);
  if (sigprocmask(SIG_BLOCK, &watched, nullptr) != 0)
    return absl::ErrnoToStatus(errno, "cannot block signals");
  UniqueFd fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "cannot create a signal descriptor");
  return SignalWatch(std::move(fd));
}

std::optional<Signal> SignalWatch::Take() {
  signalfd_siginfo info{};
  if (read(fd_.get(), &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info)))
    return std::nullopt;
  return Signal{.number = static_cast<int>(info.ssi_signo),
                .from_terminal = info.ssi_code == SI_KERNEL};
}

}  // namespace mccs::lab
