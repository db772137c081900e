// Identification of the process that connected to a Unix socket.
//
// A process id alone does not identify a process: it may have ended since it connected, and another
// one may have got its id. With SO_PEERPIDFD (Linux 6.5) the kernel gives the process itself. On
// older kernels the id is compared with what else is known: the socket is still connected, and the
// process runs as the user that connected. In both cases the process still runs when its control
// group has been read.
//
// THREAD: any. Never blocks.
#ifndef MCCS_SERVICE_FRONTEND_PEER_PROCESS_H_
#define MCCS_SERVICE_FRONTEND_PEER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs {

// The reason for which the kernel gave no descriptor of a socket's peer (SO_PEERPIDFD), from errno.
// OK: this kernel gives none of any peer. kNotFound: the process has ended, and its id may be another
// process's by now.
absl::Status StatusOfPeerPidfd(int error);

// The control group of a process: its path in the unified hierarchy, or else in systemd's hierarchy
// of version 1, from the text of /proc/PID/cgroup, converted to UTF-8: the creator of a group may
// use any bytes in its name. Empty: neither is present.
std::string CgroupIn(std::string_view proc_text);

// Reads that file; procfs never blocks. Empty: the file is not readable.
std::string CgroupOf(pid_t process);

// Whether one of the four user ids in the text of /proc/PID/status (real, effective, saved, of the
// file system) is `uid`.
bool RunsAs(std::string_view proc_text, uint32_t uid);

struct PeerProcess {
  pid_t process = 0;
  uint32_t uid = 0;         // when it connected
  std::string cgroup = {};  // empty: unknown
  UniqueFd pidfd = {};      // becomes readable when the process ends
};

enum class PeerSource : uint8_t {
  kKernel,     // SO_PEERPIDFD, where the kernel has it
  kProcessId,  // SO_PEERCRED, as on older kernels
};

// REQUIRES: `socket` is connected. kNotFound: the process that connected has ended.
absl::StatusOr<PeerProcess> IdentifyPeer(int socket, PeerSource source = PeerSource::kKernel);

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_PEER_PROCESS_H_
