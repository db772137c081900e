#include "lab/vm_launch.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "lab/network_tools.h"
#include "lab/spawn.h"
#include "lab/vms.h"

namespace mccs::lab {
namespace {

// Writes what the virtual machine reads, and returns the command line of QEMU.
absl::StatusOr<std::vector<std::string>> WriteVmFiles(const VmOptions& options) {
  const std::string directory = options.paths.VmDirectory(options.host.name);
  if (mkdir(directory.c_str(), 0700) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", directory));
  const std::string path = absl::StrCat(directory, "/", kVmStartFile);
  std::ofstream start(path);
  start << VmStartScript(options) << std::flush;
  if (!start) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  return QemuWords(options);
}

// Descriptors by virtual machine: one of the first machine for each other one, connected to that
// machine's only one.
absl::StatusOr<std::vector<std::vector<UniqueFd>>> ConnectVms(size_t vms) {
  std::vector<std::vector<UniqueFd>> cables(vms);
  for (size_t other = 1; other < vms; ++other) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return absl::ErrnoToStatus(errno, "cannot create a pair of sockets");
    cables[0].emplace_back(ends[0]);
    cables[other].emplace_back(ends[1]);
  }
  return cables;
}

// The key that the agents require: other users of this machine can reach their ports.
absl::Status WriteAgentKey(const std::string& path) {
  uint8_t key[16];
  if (getrandom(key, sizeof(key), 0) != static_cast<ssize_t>(sizeof(key)))
    return absl::ErrnoToStatus(errno, "cannot create a random key");
  std::ofstream file(path);
  for (const uint8_t byte : key) file << absl::StrFormat("%02x", byte);
  file << std::endl;
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

// Whether programs that this process starts get the descriptors.
absl::Status SetInherited(const std::vector<UniqueFd>& descriptors, bool inherited) {
  for (const UniqueFd& descriptor : descriptors) {
    if (fcntl(descriptor.get(), F_SETFD, inherited ? 0 : FD_CLOEXEC) != 0)
      return absl::ErrnoToStatus(errno, "cannot pass a socket to QEMU");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<VmState>> StartVms(const VmLaunch& launch, const LabPaths& paths) {
  MCCS_RETURN_IF_ERROR(WriteAgentKey(paths.AgentKey()));
  MCCS_ASSIGN_OR_RETURN(const std::vector<std::vector<UniqueFd>> cables,
                        ConnectVms(launch.hosts.size()));
  std::vector<VmState> vms;
  for (size_t i = 0; i < launch.hosts.size(); ++i) {
    VmOptions options{.qemu = launch.qemu,
                      .paths = paths,
                      .index = static_cast<int32_t>(i),
                      .host = launch.hosts[i],
                      .agent = launch.agent};
    MCCS_ASSIGN_OR_RETURN(options.agent_port, FreePort(PlainAddress(0)));
    for (const UniqueFd& cable : cables[i]) options.cables.push_back(cable.get());
    MCCS_ASSIGN_OR_RETURN(const std::vector<std::string> words, WriteVmFiles(options));
    MCCS_RETURN_IF_ERROR(SetInherited(cables[i], true));
    MCCS_ASSIGN_OR_RETURN(
        const pid_t pid,
        SpawnWithLog({.file = words.front(), .argv = words, .environment = launch.environment},
                     VmConsole(paths, options.host.name)));
    MCCS_RETURN_IF_ERROR(SetInherited(cables[i], false));
    vms.push_back({.name = options.host.name, .pid = pid, .agent_port = options.agent_port});
  }
  return vms;
}

}  // namespace mccs::lab
