#include "lab/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lab/child_processes.h"
#include "lab/daemon_files.h"
#include "lab/fabric.h"
#include "lab/host_identity.h"
#include "lab/spawn.h"

namespace mccs::lab {
namespace {

constexpr int64_t kReadyDeadlineNs = 30 * kNsPerSec;
constexpr int kPollMs = 5;

constexpr char kStarting[] = "starting";
constexpr char kReady[] = "ready";

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
