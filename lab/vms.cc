#include "lab/vms.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "lab/child_processes.h"
#include "lab/fabric_plan.h"
#include "lab/spawn.h"

namespace mccs::lab {
namespace {

constexpr int kVmMemoryMib = 2048;
constexpr char kSubnet[] = "10.77.0.";
constexpr char kSubnetMask[] = "/24";
// Of QEMU's user network, which is not connected to any other.
constexpr char kAgentAddress[] = "10.0.2.15";
constexpr uint16_t kAgentPort = 7600;
// Of prepare.py: this machine does not support virtual machines.
constexpr int kExitUnsupportedVms = 77;

std::string Quoted(const std::string& word) {
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

// QEMU separates options by commas.
std::string QemuPath(const std::string& path) { return absl::StrReplaceAll(path, {{",", ",,"}}); }

}  // namespace

std::vector<LabHost> VmHosts(int32_t hosts, int32_t gpus_per_host) {
  std::vector<LabHost> vms = PlainHosts(hosts, gpus_per_host);
  for (int32_t index = 0; index < hosts; ++index) {
    vms[index].address = absl::StrCat(kSubnet, index + 1);
    vms[index].port = kHostPort;
  }
  return vms;
}

std::string VmSocket(std::string_view tenant) {
  return absl::StrCat("/run/", tenant.empty() ? "mccsd" : "tenant-", std::string(tenant), ".sock");
}

std::string VmDaemonConfig() {
  // An emulated processor acknowledges late, and each needless repetition may hang a queue pair of
  // rdma_rxe.
  return absl::StrCat("transport: rdma\n", "rdma: {subnet: ", kSubnet, "0", kSubnetMask,
                      ", timeout: 16, retries: 3}\n");
}

absl::StatusOr<std::vector<std::string>> PrepareVms(const std::string& script,
                                                    const Environment& environment) {
  absl::StatusOr<std::string> python = FindProgram("python3", Get(environment, "PATH"));
  if (!python.ok()) {
    return absl::UnimplementedError(
        "virtual machines need python3, which is not in PATH; install it");
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot create a pipe");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  MCCS_ASSIGN_OR_RETURN(const pid_t child, Spawn({.file = *python,
                                                  .argv = {"python3", script},
                                                  .environment = environment,
                                                  .output = writer.get(),
                                                  .death_signal = SIGTERM}));
  writer.Reset();
  std::string output;
  char piece[4096];
  ssize_t got;
  while ((got = read(reader.get(), piece, sizeof(piece))) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0) output.append(piece, got);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const std::string text(absl::StripSuffix(output, "\n"));
  if (ExitStatusOf(status) == kExitUnsupportedVms) return absl::UnimplementedError(text);
  if (status != 0) {
    return absl::UnavailableError(
        text.empty() ? absl::StrCat("cannot prepare virtual machines: ", script, " ",
                                    DescribeEnd(status), " (see the messages above)")
                     : text);
  }
  return absl::StrSplit(text, '\n');
}

std::vector<std::string> QemuWords(const VmOptions& options) {
  std::vector<std::string> words = options.qemu;
  auto add = [&words](const std::string& option, const std::string& value) {
    words.push_back(option);
    words.push_back(value);
  };
  add("-name", options.host.name);
  add("-m", absl::StrCat(kVmMemoryMib));
  add("-append", absl::StrCat("console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable "
                              "LAB_DIRECTORY=",
                              options.paths.root, " LAB_HOST=", options.host.name));
  // remap: files of several file systems below / may have equal inode numbers.
  add("-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap");
  add("-virtfs", absl::StrCat("local,path=", QemuPath(options.paths.root),
                              ",mount_tag=lab,security_model=none"));
  // The first virtual machine has the hub. The MAC addresses differ in the last byte.
  add("-netdev", "hubport,id=link,hubid=0");
  add("-device",
      absl::StrCat("virtio-net-pci,netdev=link,mac=52:54:00:77:00:0", options.index + 1));
  for (const int cable : options.cables) {
    add("-netdev", absl::StrCat("socket,id=cable", cable, ",fd=", cable));
    add("-netdev", absl::StrCat("hubport,id=port", cable, ",hubid=0,netdev=cable", cable));
  }
  add("-netdev", absl::StrCat("user,id=control,restrict=on,hostfwd=tcp:127.0.0.1:",
                              options.agent_port, "-", kAgentAddress, ":", kAgentPort));
  add("-device", "virtio-net-pci,netdev=control");
  return words;
}

std::string VmStartScript(const VmOptions& options) {
  const LabPaths& paths = options.paths;
  const std::string& host = options.host.name;
  return absl::StrCat(
      "set -e\n"
      "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
      "echo ",
      host, " >/proc/sys/kernel/hostname\n", "mount --bind ", Quoted(paths.HostsFile()),
      " /etc/hosts\n"
      "ulimit -l unlimited\n"
      "# Otherwise the GIDs of the RDMA device change when the link-local address is ready.\n"
      "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6\n"
      "ip link set lo up\n"
      "ip link set eth0 mtu 4200 up\n"
      "ip address add ",
      options.host.address, kSubnetMask,
      " dev eth0\n"
      "ip link set eth1 up\n"
      "ip address add ",
      kAgentAddress,
      "/24 dev eth1\n"
      "rdma link add rxe0 type rxe netdev eth0\n"
      "until grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state; do sleep 0.1; done\n"
      "exec ",
      Quoted(options.agent), " vm-agent --port ", kAgentPort, " --key-file ",
      Quoted(paths.AgentKey()), " --ready-file ", Quoted(VmReadyFile(paths, host)), "\n");
}

std::string VmConsole(const LabPaths& paths, std::string_view host) {
  return paths.VmDirectory(host) + "/console";
}
std::string VmReadyFile(const LabPaths& paths, std::string_view host) {
  return paths.VmDirectory(host) + "/ready";
}

}  // namespace mccs::lab
