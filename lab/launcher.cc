#include "lab/launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "lab/certificates.h"
#include "lab/child_processes.h"
#include "lab/fabric.h"
#include "lab/host_identity.h"
#include "lab/lab_state.h"
#include "lab/spawn.h"
#include "lab/vm_launch.h"
#include "lab/vms.h"

namespace mccs::lab {
namespace {

constexpr int64_t kReadyDeadlineNs = 30 * kNsPerSec;
constexpr int kPollMs = 5;
constexpr int kBootPollMs = 50;

constexpr char kStarting[] = "starting";
constexpr char kReady[] = "ready";

// ---- Files of the daemons -----------------------------------------------------------------------

constexpr size_t kTailLines = 12;

absl::Status WriteFolder(const LabPaths& paths, const std::string& daemon,
                         const std::string& config) {
  if (mkdir(paths.DaemonDirectory(daemon).c_str(), 0700) != 0) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot create ", paths.DaemonDirectory(daemon)));
  }
  std::ofstream file(paths.Config(daemon));
  file << config << std::flush;
  if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", paths.Config(daemon)));
  return absl::OkStatus();
}

std::string SocketOf(const LabPlan& plan, const LabPaths& paths, const std::string& host,
                     const std::string& tenant = "") {
  return plan.has_vms() ? VmSocket(tenant) : paths.Socket(host, tenant);
}

std::string SocketsOf(const LabPlan& plan, const LabPaths& paths, const std::string& host) {
  std::string text = plan.tenants.empty() ? "" : "sockets:\n";
  for (const std::string& tenant : plan.tenants) {
    absl::StrAppend(&text, "  - {path: ", SocketOf(plan, paths, host, tenant), ", tenant: '",
                    tenant, "'}\n");
  }
  return text;
}

std::optional<std::string> ReadAddress(const std::string& path) {
  std::ifstream file(path);
  std::string address;
  if (!(file >> address) || address.find(':') == std::string::npos) return std::nullopt;
  return address;
}

// Creates the daemon's directory and configuration. `listen`: ADDRESS:PORT.
absl::Status WriteControllerFiles(const LabPaths& paths, const std::string& listen) {
  return WriteFolder(paths, kControllerName,
                     absl::StrCat("listen: ", listen, "\n",
                                  "metrics_listen: ", listen.substr(0, listen.rfind(':')), ":0\n",
                                  "state_dir: ", paths.DaemonDirectory(kControllerName), "\n",
                                  ControllerTlsLines(paths)));
}

// MCCS_GPU=emulated: kernels of the tenants run collectives, on the emulated GPUs.
std::string DeviceLine() {
  const char* const gpu = std::getenv("MCCS_GPU");
  return gpu != nullptr && std::string_view(gpu) == "emulated" ? "device: gpu\n" : "";
}

// The plan's lines for mccsd must not repeat the keys that the lab writes.
absl::Status WriteHostFiles(const LabPlan& plan, const LabPaths& paths, const LabHost& host,
                            const std::string& controller_endpoint) {
  const std::string endpoint = absl::StrCat(host.address, ":", host.port);
  const std::string listen = host.listens_everywhere ? absl::StrCat("listen: 0.0.0.0:", host.port,
                                                                    "\nadvertise: ", endpoint)
                                                     : absl::StrCat("listen: ", endpoint);
  return WriteFolder(
      paths, host.name,
      absl::StrCat(
          "host: ", host.name, "\n",                           //
          "socket: ", SocketOf(plan, paths, host.name), "\n",  //
          listen, "\n",                                        //
          "metrics_listen: ", host.address, ":0\n", "state_dir: ", paths.DaemonDirectory(host.name),
          "\n",                                       //
          "controller: ", controller_endpoint, "\n",  //
          HostTlsLines(paths, host.name),             //
          "gpus: ", host.gpus, "\n",                  //
          "position: {pod: '", host.pod, "', rack: '", host.rack, "'}\n",
          "dscp: {1: 8, 2: 16, 3: 24, 4: 32, 5: 40, 6: 48, 7: 56}\n", "log_level: info\n",
          "socket_dir: ", plan.has_vms() ? kVmSocketDirectory : paths.SocketDirectory(host.name),
          "\n", DeviceLine(), SocketsOf(plan, paths, host.name),
          plan.has_vms() ? VmDaemonConfig() : "", plan.mccsd_config));
}

// The daemon's host:port; empty until it serves.
std::optional<std::string> ReadEndpoint(const LabPaths& paths, std::string_view daemon) {
  return ReadAddress(paths.Endpoint(daemon));
}

// host:port of its metrics; set before ReadEndpoint returns a value.
std::optional<std::string> ReadMetricsEndpoint(const LabPaths& paths, std::string_view daemon) {
  return ReadAddress(paths.MetricsEndpoint(daemon));
}

// The last lines of a log, for an error message.
std::string LogTail(const std::string& path) {
  std::ifstream file(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back("  " + line);
    if (lines.size() > kTailLines) lines.pop_front();
  }
  return lines.empty() ? "  (the log is empty)" : absl::StrJoin(lines, "\n");
}

bool HasOwnNetwork(const LabPlan& plan) { return plan.network || plan.has_vms(); }

std::string ControllerAddress(const LabPlan& plan) {
  if (plan.network) return plan.network->fabric.nodes.front().address;
  return plan.has_vms() ? plan.hosts.front().address : PlainAddress(0);
}

}  // namespace

Launcher::Launcher(const LabPlan& plan, LabPaths paths, pid_t supervisor, int caller,
                   SignalWatch* signals)
    : plan_(plan), paths_(std::move(paths)), caller_(caller), signals_(*signals) {
  state_.name = plan.name;
  state_.supervisor_pid = supervisor;
  state_.tenants = plan.tenants;
  AddDaemon(kControllerName, ControllerAddress(plan), 0);
  for (const LabHost& host : plan.hosts) AddDaemon(host.name, host.address, host.gpus);
}

void Launcher::AddDaemon(std::string name, std::string address, int32_t gpus) {
  DaemonState& daemon = state_.daemons.emplace_back();
  daemon.name = std::move(name);
  daemon.address = std::move(address);
  daemon.condition = kStarting;
  daemon.gpus = gpus;
}

absl::Status Launcher::Start() {
  MCCS_RETURN_IF_ERROR(WriteState(paths_, state_));
  MCCS_RETURN_IF_ERROR(StartNetwork());
  MCCS_RETURN_IF_ERROR(WriteCertificates(paths_, plan_.hosts));
  DaemonState& controller = state_.daemons.front();
  MCCS_RETURN_IF_ERROR(WriteControllerFiles(
      paths_, absl::StrCat(controller.address, ":", HasOwnNetwork(plan_) ? kControllerPort : 0)));
  MCCS_RETURN_IF_ERROR(StartDaemon(&controller, plan_.products.controller));
  MCCS_RETURN_IF_ERROR(WaitUntilReady(0, 1));
  for (size_t i = 1; i < state_.daemons.size(); ++i) {
    MCCS_RETURN_IF_ERROR(WriteHostFiles(plan_, paths_, plan_.hosts[i - 1], controller.endpoint));
    MCCS_RETURN_IF_ERROR(StartDaemon(&state_.daemons[i], plan_.products.mccsd));
  }
  MCCS_RETURN_IF_ERROR(WaitUntilReady(1, state_.daemons.size()));
  state_.ready = true;
  return WriteState(paths_, state_);
}

absl::Status Launcher::StartNetwork() {
  if (plan_.has_vms()) {
    MCCS_RETURN_IF_ERROR(WriteHostsFile());
    MCCS_ASSIGN_OR_RETURN(state_.vms, StartVms({.qemu = plan_.qemu,
                                                .hosts = plan_.hosts,
                                                .agent = plan_.products.lab,
                                                .environment = plan_.environment},
                                               paths_));
    return WaitUntilBooted();
  }
  if (!plan_.network) return WriteHostsFile();
  std::ofstream topology(paths_.Topology());
  topology << plan_.network->topology_text << std::flush;
  if (!topology)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", paths_.Topology()));
  MCCS_ASSIGN_OR_RETURN(state_.nodes,
                        BuildFabric(plan_.network->fabric, plan_.network->tools, paths_));
  return absl::OkStatus();
}

absl::Status Launcher::WaitUntilBooted() {
  const MonotonicNs deadline = clock_.Now() + kVmBootDeadlineNs;
  for (const VmState& vm : state_.vms) {
    while (access(VmReadyFile(paths_, vm.name).c_str(), F_OK) != 0) {
      MCCS_RETURN_IF_ERROR(CheckCancelled());
      if (vm.pid == 0 || clock_.Now() > deadline) {
        return absl::UnavailableError(absl::StrCat(
            "virtual machine ", vm.name, " did not start",
            vm.pid == 0 ? "" : absl::StrCat(" within ", kVmBootDeadlineNs / kNsPerSec, " s"),
            "; end of its console:\n", LogTail(VmConsole(paths_, vm.name))));
      }
      Pause(kBootPollMs);
    }
  }
  return absl::OkStatus();
}

absl::Status Launcher::WriteHostsFile() {
  std::ifstream machines("/etc/hosts");
  const std::string text(std::istreambuf_iterator<char>(machines), {});
  std::ofstream file(paths_.HostsFile());
  file << PlainHostsFile(plan_.hosts, text) << std::flush;
  if (file) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", paths_.HostsFile()));
}

absl::Status Launcher::StartDaemon(DaemonState* daemon, const std::string& program) {
  Variables changes = {{"MCCS_EMULATED_HOST", daemon->name},
                       {"MCCS_EMULATED_GPUS", absl::StrCat(daemon->gpus)},
                       // where mccsd finds NVML
                       {"LD_LIBRARY_PATH", plan_.products.emulation}};
  MCCS_ASSIGN_OR_RETURN(const Place place, state_.PlaceOf(paths_, daemon->name));
  MCCS_ASSIGN_OR_RETURN(daemon->pid,
                        SpawnWithLog({.file = program,
                                      .argv = {program, "--config", paths_.Config(daemon->name)},
                                      .environment = With(plan_.environment, changes),
                                      .place = place},
                                     paths_.Log(daemon->name)));
  return absl::OkStatus();
}

absl::Status Launcher::WaitUntilReady(size_t first, size_t last) {
  const int64_t limit_ns = plan_.has_vms() ? kVmReadyDeadlineNs : kReadyDeadlineNs;
  const MonotonicNs deadline = clock_.Now() + limit_ns;
  for (size_t i = first; i < last;) {
    DaemonState& daemon = state_.daemons[i];
    if (std::optional<std::string> endpoint = ReadEndpoint(paths_, daemon.name)) {
      daemon.endpoint = *endpoint;
      daemon.metrics = ReadMetricsEndpoint(paths_, daemon.name).value_or("");
      daemon.condition = kReady;
      ++i;
      continue;
    }
    MCCS_RETURN_IF_ERROR(CheckCancelled());
    if (daemon.pid == 0) {
      return absl::UnavailableError(absl::StrCat(daemon.name, " ", daemon.condition,
                                                 " before it was ready; end of its log:\n",
                                                 LogTail(paths_.Log(daemon.name))));
    }
    if (clock_.Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          daemon.name, " is not ready after ", limit_ns / kNsPerSec, " s (no ",
          paths_.Endpoint(daemon.name), "); end of its log:\n", LogTail(paths_.Log(daemon.name))));
    }
    Pause(kPollMs);
  }
  return absl::OkStatus();
}

void Launcher::Watch() {
  while (!HandleSignals()) Pause(/*timeout_ms=*/-1);
}

void Launcher::Stop() {
  StopDaemons(1, state_.daemons.size());
  StopDaemons(0, 1);
  for (const NodeState& node : state_.nodes) kill(node.pid, SIGKILL);
  for (const VmState& vm : state_.vms) {
    if (vm.pid > 0) kill(vm.pid, SIGKILL);
  }
}

void Launcher::StopDaemons(size_t first, size_t last) {
  for (size_t i = first; i < last; ++i) {
    if (state_.daemons[i].pid > 0) kill(state_.daemons[i].pid, SIGTERM);
  }
  const MonotonicNs deadline = clock_.Now() + plan_.stop_grace_ns;
  while (AnyRunning(first, last) && clock_.Now() < deadline) {
    Pause(kPollMs);
    HandleSignals();
  }
  for (size_t i = first; i < last; ++i) {
    if (state_.daemons[i].pid > 0) kill(-state_.daemons[i].pid, SIGKILL);
  }
}

bool Launcher::HandleSignals() {
  bool stop = false;
  while (std::optional<Signal> signal = signals_.Take()) stop = stop || signal->number != SIGCHLD;
  bool changed = false;
  for (const EndedChild& ended : ReapChildren()) {
    for (DaemonState& daemon : state_.daemons) {
      if (daemon.pid != ended.pid) continue;
      daemon.pid = 0;
      daemon.condition = DescribeEnd(ended.wait_status);
      changed = true;
    }
    for (VmState& vm : state_.vms) {
      if (vm.pid != ended.pid) continue;
      vm.pid = 0;
      changed = true;
    }
  }
  // Ignore errors (full disk): the lab works without an up-to-date state file.
  if (changed) WriteState(paths_, state_).IgnoreError();
  return stop;
}

absl::Status Launcher::CheckCancelled() {
  pollfd caller{caller_, 0, 0};
  if (!HandleSignals() && (poll(&caller, 1, 0) == 0 || (caller.revents & POLLERR) == 0))
    return absl::OkStatus();
  return absl::CancelledError("stopped by a signal while the lab was starting");
}

bool Launcher::AnyRunning(size_t first, size_t last) const {
  for (size_t i = first; i < last; ++i) {
    if (state_.daemons[i].pid > 0) return true;
  }
  return false;
}

void Launcher::Pause(int timeout_ms) {
  pollfd waiting{signals_.fd(), POLLIN, 0};
  poll(&waiting, 1, timeout_ms);
}

}  // namespace mccs::lab
