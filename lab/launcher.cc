#include "lab/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
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
#include "lab/child_processes.h"
#include "lab/fabric.h"
#include "lab/host_identity.h"
#include "lab/lab_state.h"
#include "lab/spawn.h"

namespace mccs::lab {
namespace {

constexpr int64_t kReadyDeadlineNs = 30 * kNsPerSec;
constexpr int kPollMs = 5;

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

std::string SocketsOf(const LabPaths& paths, const std::string& host,
                      const std::vector<std::string>& tenants) {
  std::string text = tenants.empty() ? "" : "sockets:\n";
  for (const std::string& tenant : tenants) {
    absl::StrAppend(&text, "  - {path: ", paths.Socket(host, tenant), ", tenant: '", tenant,
                    "'}\n");
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
                                  "state_dir: ", paths.DaemonDirectory(kControllerName), "\n"));
}

// `tenants`: have their own sockets. `more`: YAML lines appended to the host's configuration; must
// not repeat the keys that the lab writes.
absl::Status WriteHostFiles(const LabPaths& paths, const LabHost& host,
                            const std::string& controller_endpoint,
                            const std::vector<std::string>& tenants, const std::string& more) {
  const std::string endpoint = absl::StrCat(host.address, ":", host.port);
  const std::string listen = host.listens_everywhere ? absl::StrCat("listen: 0.0.0.0:", host.port,
                                                                    "\nadvertise: ", endpoint)
                                                     : absl::StrCat("listen: ", endpoint);
  return WriteFolder(paths, host.name,
                     absl::StrCat("host: ", host.name, "\n",                  //
                                  "socket: ", paths.Socket(host.name), "\n",  //
                                  listen, "\n",                               //
                                  "metrics_listen: ", host.address, ":0\n",
                                  "state_dir: ", paths.DaemonDirectory(host.name), "\n",  //
                                  "controller: ", controller_endpoint, "\n",              //
                                  "gpus: ", host.gpus, "\n",                              //
                                  "position: {pod: '", host.pod, "', rack: '", host.rack, "'}\n",
                                  "dscp: {1: 8, 2: 16, 3: 24, 4: 32, 5: 40, 6: 48, 7: 56}\n",
                                  "log_level: info\n", SocketsOf(paths, host.name, tenants), more));
}

// The daemon's host:port; empty until it serves.
std::optional<std::string> ReadEndpoint(const LabPaths& paths, std::string_view daemon) {
  return ReadAddress(paths.Endpoint(daemon));
}

// host:port of its metrics; set before ReadEndpoint returns a value.
std::optional<std::string> ReadMetricsEndpoint(const LabPaths& paths, std::string_view daemon) {
  return ReadAddress(paths.MetricsEndpoint(daemon));
}

// The last lines of the daemon's log, for an error message.
std::string LogTail(const LabPaths& paths, std::string_view daemon) {
  std::ifstream file(paths.Log(daemon));
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back("  " + line);
    if (lines.size() > kTailLines) lines.pop_front();
  }
  return lines.empty() ? "  (the log is empty)" : absl::StrJoin(lines, "\n");
}

}  // namespace

Launcher::Launcher(const LabPlan& plan, LabPaths paths, pid_t supervisor, SignalWatch* signals)
    : plan_(plan), paths_(std::move(paths)), signals_(*signals) {
  state_.name = plan.name;
  state_.supervisor_pid = supervisor;
  AddDaemon(kControllerName,
            plan.network ? plan.network->fabric.nodes.front().address : PlainAddress(0), 0);
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
  DaemonState& controller = state_.daemons.front();
  MCCS_RETURN_IF_ERROR(WriteControllerFiles(
      paths_, absl::StrCat(controller.address, ":", plan_.network ? kControllerPort : 0)));
  MCCS_RETURN_IF_ERROR(StartDaemon(&controller, plan_.products.controller));
  MCCS_RETURN_IF_ERROR(WaitUntilReady(0, 1));
  for (size_t i = 1; i < state_.daemons.size(); ++i) {
    MCCS_RETURN_IF_ERROR(WriteHostFiles(paths_, plan_.hosts[i - 1], controller.endpoint,
                                        plan_.tenants, plan_.mccsd_config));
    MCCS_RETURN_IF_ERROR(StartDaemon(&state_.daemons[i], plan_.products.mccsd));
  }
  MCCS_RETURN_IF_ERROR(WaitUntilReady(1, state_.daemons.size()));
  state_.ready = true;
  return WriteState(paths_, state_);
}

absl::Status Launcher::StartNetwork() {
  if (!plan_.network) return WriteHostsFile();
  std::ofstream topology(paths_.Topology());
  topology << plan_.network->topology_text << std::flush;
  if (!topology)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", paths_.Topology()));
  MCCS_ASSIGN_OR_RETURN(state_.nodes,
                        BuildFabric(plan_.network->fabric, plan_.network->tools, paths_));
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
  UniqueFd log(
      open(paths_.Log(daemon->name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!log.valid() || !nothing.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", paths_.Log(daemon->name)));
  }
  Variables changes = {{"MCCS_EMULATED_HOST", daemon->name},
                       {"MCCS_EMULATED_GPUS", absl::StrCat(daemon->gpus)}};
  MCCS_ASSIGN_OR_RETURN(const pid_t node, state_.NodeHolder(daemon->name));
  MCCS_ASSIGN_OR_RETURN(daemon->pid,
                        Spawn({.file = program,
                               .argv = {program, "--config", paths_.Config(daemon->name)},
                               .environment = With(plan_.environment, changes),
                               .input = nothing.get(),
                               .output = log.get(),
                               .error = log.get(),
                               .own_group = true,
                               .node = node,
                               .death_signal = SIGKILL}));
  return absl::OkStatus();
}

absl::Status Launcher::WaitUntilReady(size_t first, size_t last) {
  const MonotonicNs deadline = clock_.Now() + kReadyDeadlineNs;
  for (size_t i = first; i < last;) {
    DaemonState& daemon = state_.daemons[i];
    if (std::optional<std::string> endpoint = ReadEndpoint(paths_, daemon.name)) {
      daemon.endpoint = *endpoint;
      daemon.metrics = ReadMetricsEndpoint(paths_, daemon.name).value_or("");
      daemon.condition = kReady;
      ++i;
      continue;
    }
    if (HandleSignals())
      return absl::CancelledError("stopped by a signal while the lab was starting");
    if (daemon.pid == 0) {
      return absl::UnavailableError(absl::StrCat(daemon.name, " ", daemon.condition,
                                                 " before it was ready; end of its log:\n",
                                                 LogTail(paths_, daemon.name)));
    }
    if (clock_.Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          daemon.name, " is not ready after ", kReadyDeadlineNs / kNsPerSec, " s (no ",
          paths_.Endpoint(daemon.name), "); end of its log:\n", LogTail(paths_, daemon.name)));
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
  }
  // Ignore errors (full disk): the lab works without an up-to-date state file.
  if (changed) WriteState(paths_, state_).IgnoreError();
  return stop;
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
