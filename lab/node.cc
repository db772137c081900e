#include "lab/node.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "lab/child_processes.h"

namespace mccs::lab {
namespace {

constexpr int kNodeNamespaces = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS;
constexpr char kControlGroups[] = "/sys/fs/cgroup";
// A node's report when it is ready; any other report is an error message.
constexpr char kNodeReady[] = "ready";

absl::Status Set(const Sysctl& sysctl) {
  const std::string path =
      absl::StrCat("/proc/sys/", absl::StrReplaceAll(sysctl.name, {{".", "/"}}));
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const bool is_set = file.valid() && write(file.get(), sysctl.value.data(), sysctl.value.size()) ==
                                          static_cast<ssize_t>(sysctl.value.size());
  if (is_set || !sysctl.required) return absl::OkStatus();
  return Unsupported(
      absl::StrCat("this kernel does not accept ", sysctl.name, " = ", sysctl.value));
}

// Mounts /sys of the current network namespace. The machine's control groups stay visible in it.
absl::Status MountSysfs() {
  UniqueFd groups(
      open_tree(AT_FDCWD, kControlGroups, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    return Unsupported("cannot mount /sys for a network namespace");
  // Without control groups there is nothing to move.
  if (groups.valid())
    (void)!move_mount(groups.get(), "", AT_FDCWD, kControlGroups, MOVE_MOUNT_F_EMPTY_PATH);
  return absl::OkStatus();
}

absl::Status BecomeNode(const NodeOptions& options) {
  if (unshare(kNodeNamespaces) != 0) {
    return Unsupported("network namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN)");
  }
  MCCS_RETURN_IF_ERROR(SetIdentity(options.identity));
  MCCS_RETURN_IF_ERROR(MountSysfs());
  for (const Sysctl& sysctl : options.sysctls) MCCS_RETURN_IF_ERROR(Set(sysctl));
  return absl::OkStatus();
}

// Main function of the holder process.
[[noreturn]] void HoldNode(const NodeOptions& options, pid_t parent, int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, absl::StrCat("lab:", options.identity.name).c_str());
  const absl::Status status =
      getppid() == parent ? BecomeNode(options) : absl::CancelledError("the lab has ended");
  const std::string text = status.ok() ? kNodeReady : std::string(status.message());
  (void)!write(report, text.data(), text.size());
  if (!status.ok()) _exit(1);
  // Close all inherited descriptors; open pipe ends would hide the parent's end from their readers.
  close_range(0, ~0U, 0);
  while (true) pause();
}

}  // namespace

absl::StatusOr<pid_t> StartNode(const NodeOptions& options) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t parent = getpid();
  const pid_t holder = fork();
  if (holder < 0) return absl::ErrnoToStatus(errno, "cannot fork");
  if (holder == 0) HoldNode(options, parent, writer.get());
  writer.Reset();
  std::string report;
  char piece[1024];
  ssize_t got;
  while ((got = read(reader.get(), piece, sizeof(piece))) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0) report.append(piece, got);
  }
  if (report == kNodeReady) return holder;
  waitpid(holder, nullptr, 0);
  return absl::UnimplementedError(
      report.empty()
          ? absl::StrCat("the holder process of node ", options.identity.name, " was killed")
          : report);
}

int EnterNode(pid_t holder) {
  char directory[PATH_MAX];
  const bool has_directory = getcwd(directory, sizeof(directory)) != nullptr;
  const UniqueFd pidfd = OpenPidfd(holder);
  if (!pidfd.valid()) return errno;
  const int error = setns(pidfd.get(), kNodeNamespaces) != 0 ? errno : 0;
  // setns to a mount namespace changes the working directory to its root.
  if (error == 0 && has_directory && chdir(directory) != 0) return errno;
  return error;
}

absl::Status RunInNetworkOf(pid_t holder, absl::FunctionRef<absl::Status()> work) {
  UniqueFd home(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  const UniqueFd there = OpenPidfd(holder);
  if (!home.valid() || !there.valid() || setns(there.get(), CLONE_NEWNET) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot enter the network of process ", holder));
  absl::Status status = work();
  MCCS_CHECK(setns(home.get(), CLONE_NEWNET) == 0);
  return status;
}

}  // namespace mccs::lab
