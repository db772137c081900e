#include "service/frontend/peer_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utf8.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// From Linux 6.5's headers; the number is part of the kernel's interface.
#ifdef SO_PEERPIDFD
constexpr int kPeerPidfd = SO_PEERPIDFD;
static_assert(kPeerPidfd == 77);
#else
constexpr int kPeerPidfd = 77;
#endif

std::string ReadProcFile(pid_t process, const char* name) {
  std::ifstream file(absl::StrCat("/proc/", process, "/", name));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Without waiting.
bool IsReadable(int fd, short events) {
  pollfd polled{.fd = fd, .events = events, .revents = 0};
  return poll(&polled, 1, 0) > 0 && (polled.revents & (events | POLLHUP | POLLERR)) != 0;
}

absl::Status Ended() { return absl::NotFoundError("the process has ended"); }

// The kernel's own descriptor of the process; not valid: this kernel has none.
absl::StatusOr<UniqueFd> PidfdOfPeer(int socket) {
  int pidfd = -1;
  socklen_t length = sizeof(pidfd);
  if (getsockopt(socket, SOL_SOCKET, kPeerPidfd, &pidfd, &length) == 0) return UniqueFd(pidfd);
  MCCS_RETURN_IF_ERROR(StatusOfPeerPidfd(errno));
  return UniqueFd();
}

// REQUIRES: `process` is the id of the process that connected, with the user id `uid` then.
absl::StatusOr<UniqueFd> PidfdById(int socket, pid_t process, uint32_t uid) {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!pidfd.valid() && errno == ESRCH) return Ended();
  if (!pidfd.valid()) return absl::ErrnoToStatus(errno, "cannot watch a new process for its end");
  // POLLRDHUP: an end of file, whatever the process has sent before.
  if (IsReadable(socket, POLLRDHUP) || !RunsAs(ReadProcFile(process, "status"), uid))
    return Ended();
  return pidfd;
}

}  // namespace

absl::Status StatusOfPeerPidfd(int error) {
  if (error == ENOPROTOOPT) return absl::OkStatus();
  // EINVAL, before Linux 6.15: somebody has waited for the process. Its id may belong to another one.
  if (error == EINVAL || error == ESRCH) return Ended();
  return absl::ErrnoToStatus(error, "cannot watch a new process for its end");
}

// Lines are "0::/unified/path" and "4:cpu,cpuacct:/path/of/version/1"; a path may contain colons.
std::string CgroupIn(std::string_view proc_text) {
  std::string of_systemd;
  while (!proc_text.empty()) {
    const std::string_view line = proc_text.substr(0, proc_text.find('\n'));
    proc_text.remove_prefix(std::min(line.size() + 1, proc_text.size()));
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view hierarchy = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (hierarchy == "name=systemd") of_systemd = path;
    if (line.substr(0, first) == "0" && hierarchy.empty() && path != "/")
      return utf8::replace_invalid(path, U'?');
    // If version 1 is also in use, no process is below the root of the unified hierarchy.
    if (hierarchy.empty() && of_systemd.empty()) of_systemd = path;
  }
  return utf8::replace_invalid(of_systemd, U'?');
}

std::string CgroupOf(pid_t process) { return CgroupIn(ReadProcFile(process, "cgroup")); }

// The line is "Uid:\t1000\t1000\t1000\t1000".
bool RunsAs(std::string_view proc_text, uint32_t uid) {
  constexpr std::string_view kKey = "\nUid:";
  const size_t at = proc_text.find(kKey);
  if (at == proc_text.npos) return false;
  std::string_view ids = proc_text.substr(at + kKey.size());
  ids = ids.substr(0, ids.find('\n'));
  while (!ids.empty()) {
    const size_t digit = ids.find_first_of("0123456789");
    if (digit == ids.npos) return false;
    ids.remove_prefix(digit);
    uint32_t id = 0;
    const char* const end = std::from_chars(ids.data(), ids.data() + ids.size(), id).ptr;
    if (id == uid) return true;
    ids.remove_prefix(static_cast<size_t>(end - ids.data()));
  }
  return false;
}

absl::StatusOr<PeerProcess> IdentifyPeer(int socket, PeerSource source) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return absl::ErrnoToStatus(errno, "cannot read the credentials of a new process");
  }
  PeerProcess peer{.process = credentials.pid, .uid = credentials.uid};
  if (source == PeerSource::kKernel) {
    MCCS_ASSIGN_OR_RETURN(peer.pidfd, PidfdOfPeer(socket));
  }
  if (!peer.pidfd.valid()) {
    MCCS_ASSIGN_OR_RETURN(peer.pidfd, PidfdById(socket, peer.process, peer.uid));
  }
  // Read once; the daemon uses this group even if the process moves. The id was the process's while
  // it was read if the process has not ended since.
  peer.cgroup = CgroupOf(peer.process);
  if (IsReadable(peer.pidfd.get(), POLLIN)) return Ended();
  return peer;
}

}  // namespace mccs
