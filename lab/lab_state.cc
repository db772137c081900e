#include "lab/lab_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/yaml_config.h"

namespace mccs::lab {

nlohmann::ordered_json ToJson(const LabState& lab) {
  nlohmann::ordered_json json = {{"name", lab.name},
                                 {"ready", lab.ready},
                                 {"supervisor_pid", lab.supervisor_pid},
                                 {"daemons", nlohmann::ordered_json::array()},
                                 {"nodes", nlohmann::ordered_json::array()},
                                 {"vms", nlohmann::ordered_json::array()},
                                 {"tenants", lab.tenants}};
  for (const DaemonState& daemon : lab.daemons) {
    json["daemons"].push_back({{"name", daemon.name},
                               {"address", daemon.address},
                               {"pid", daemon.pid},
                               {"condition", daemon.condition},
                               {"endpoint", daemon.endpoint},
                               {"metrics", daemon.metrics},
                               {"gpus", daemon.gpus}});
  }
  for (const NodeState& node : lab.nodes)
    json["nodes"].push_back({{"name", node.name}, {"pid", node.pid}});
  for (const VmState& vm : lab.vms)
    json["vms"].push_back({{"name", vm.name}, {"pid", vm.pid}, {"agent_port", vm.agent_port}});
  return json;
}

absl::StatusOr<const DaemonState*> LabState::Find(std::string_view daemon) const {
  for (const DaemonState& candidate : daemons) {
    if (candidate.name == daemon) return &candidate;
  }
  std::string names = absl::StrJoin(
      daemons, ", ",
      [](std::string* out, const DaemonState& candidate) { out->append(candidate.name); });
  return absl::NotFoundError(
      absl::StrCat("lab '", name, "' has no daemon '", std::string(daemon), "'; it has ", names));
}

absl::StatusOr<const DaemonState*> LabState::FindHost(std::string_view host) const {
  if (host == kControllerName) {
    return absl::InvalidArgumentError(absl::StrCat(
        "invalid host '", kControllerName, "': expected a host of the lab; see mccs-lab status"));
  }
  return Find(host);
}

absl::StatusOr<pid_t> LabState::NodeHolder(std::string_view node) const {
  if (nodes.empty()) return 0;
  for (const NodeState& candidate : nodes) {
    if (candidate.name == node) return candidate.pid;
  }
  std::string names = absl::StrJoin(nodes, ", ", [](std::string* out, const NodeState& candidate) {
    out->append(candidate.name);
  });
  return absl::NotFoundError(
      absl::StrCat("lab '", name, "' has no node '", std::string(node), "'; it has ", names));
}

absl::StatusOr<Place> LabState::PlaceOf(const LabPaths& paths, std::string_view name) const {
  if (!has_vms()) {
    MCCS_ASSIGN_OR_RETURN(const pid_t node, NodeHolder(name));
    return Place{.node = node};
  }
  for (const VmState& vm : vms) {
    if (vm.name == name || name == kControllerName)
      return Place{.agent_port = vm.agent_port, .agent_key_file = paths.AgentKey()};
  }
  return FindHost(name).status();
}

std::string PlainAddress(int32_t index) { return absl::StrCat("127.0.0.", index + 1); }

std::vector<LabHost> PlainHosts(int32_t hosts, int32_t gpus_per_host) {
  std::vector<LabHost> plain;
  for (int32_t index = 0; index < hosts; ++index) {
    plain.push_back({.name = absl::StrCat("h", index),
                     .address = PlainAddress(index),
                     .gpus = gpus_per_host,
                     .pod = "p0",
                     .rack = "r0"});
  }
  return plain;
}

std::string LabPaths::VmDirectory(std::string_view host) const {
  return absl::StrCat(root, "/vm-", std::string(host));
}

std::string LabPaths::DaemonDirectory(std::string_view daemon) const {
  return absl::StrCat(root, "/", std::string(daemon));
}

std::string LabPaths::Socket(std::string_view host, std::string_view tenant) const {
  return absl::StrCat(DaemonDirectory(host), "/", tenant.empty() ? "mccsd" : "tenant-",
                      std::string(tenant), ".sock");
}
std::string LabPaths::SocketDirectory(std::string_view host) const {
  return DaemonDirectory(host) + "/tenants";
}
std::string LabPaths::Config(std::string_view daemon) const {
  return DaemonDirectory(daemon) + "/config.yaml";
}
std::string LabPaths::Log(std::string_view daemon) const {
  return DaemonDirectory(daemon) + "/log";
}
std::string LabPaths::Endpoint(std::string_view daemon) const {
  return DaemonDirectory(daemon) + "/endpoint";
}
std::string LabPaths::MetricsEndpoint(std::string_view daemon) const {
  return DaemonDirectory(daemon) + "/metrics";
}

absl::Status WriteState(const LabPaths& paths, const LabState& state) {
  std::string partial = paths.State() + ".partial";
  {
    std::ofstream file(partial);
    file << ToJson(state).dump(kJsonIndent) << std::endl;  // YAML, too
    if (!file) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", partial));
  }
  if (std::rename(partial.c_str(), paths.State().c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", paths.State()));
  }
  return absl::OkStatus();
}

absl::StatusOr<LabState> ReadState(const LabPaths& paths) {
  LabState state;
  MCCS_ASSIGN_OR_RETURN(YamlReader yaml, YamlReader::Open(paths.State()));
  yaml.Field("name", &state.name, Need::kRequired);
  yaml.Field("supervisor_pid", &state.supervisor_pid, Need::kRequired);
  yaml.Field("ready", &state.ready, Need::kRequired);
  for (YamlReader& entry : yaml.Children("daemons")) {
    DaemonState& daemon = state.daemons.emplace_back();
    entry.Field("name", &daemon.name, Need::kRequired);
    entry.Field("address", &daemon.address, Need::kRequired);
    entry.Field("pid", &daemon.pid, Need::kRequired);
    entry.Field("condition", &daemon.condition, Need::kRequired);
    entry.Field("endpoint", &daemon.endpoint, Need::kRequired);
    entry.Field("gpus", &daemon.gpus, Need::kRequired);
    entry.Field("metrics", &daemon.metrics, Need::kRequired);
  }
  for (YamlReader& entry : yaml.Children("nodes")) {
    NodeState& node = state.nodes.emplace_back();
    entry.Field("name", &node.name, Need::kRequired);
    entry.Field("pid", &node.pid, Need::kRequired);
  }
  for (YamlReader& entry : yaml.Children("vms")) {
    VmState& vm = state.vms.emplace_back();
    entry.Field("name", &vm.name, Need::kRequired);
    entry.Field("pid", &vm.pid, Need::kRequired);
    entry.Field("agent_port", &vm.agent_port, Need::kRequired);
  }
  yaml.Field("tenants", &state.tenants);
  MCCS_RETURN_IF_ERROR(yaml.Finish());
  return state;
}

namespace {

// Retries if another process removes the directory between open and lock.
constexpr int kMaxAttempts = 100;

struct LockedDirectory {
  UniqueFd lock;
  bool is_ours = false;  // false: another process holds the lock
};

// Opens the directory and tries to lock it. Empty: it does not exist. kPermissionDenied: another
// user owns it (/tmp is shared).
absl::StatusOr<std::optional<LockedDirectory>> TryLock(const LabPaths& paths) {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    UniqueFd directory(open(paths.root.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory.valid() && errno == ENOENT) return std::optional<LockedDirectory>();
    struct stat opened {};
    if (!directory.valid() || fstat(directory.get(), &opened) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", paths.root));
    }
    if (opened.st_uid != getuid()) {
      return absl::PermissionDeniedError(
          absl::StrCat("cannot use ", paths.root, ": another user owns it; remove it"));
    }
    bool locked = flock(directory.get(), LOCK_EX | LOCK_NB) == 0;
    struct stat named {};
    bool still_there = lstat(paths.root.c_str(), &named) == 0 && named.st_ino == opened.st_ino;
    if (still_there) return LockedDirectory{std::move(directory), locked};
  }
  return absl::AbortedError(
      absl::StrCat("cannot lock ", paths.root, ": other processes keep replacing it; try again"));
}

absl::Status ValidateName(std::string_view name, std::string_view whose) {
  const bool known_letters = std::all_of(name.begin(), name.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-' ||
           letter == '_';
  });
  if (!name.empty() && name.size() <= kMaxNameChars && known_letters) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "invalid name '", std::string(name), "' for ", std::string(whose), ": expected at most ",
      kMaxNameChars, " lower-case letters, digits, '-' and '_'"));
}

}  // namespace

absl::Status ValidateLabName(std::string_view name) { return ValidateName(name, "a lab"); }
absl::Status ValidateTenantName(std::string_view name) { return ValidateName(name, "a tenant"); }

std::string LabDirectories::Prefix() const { return absl::StrCat("mccs-lab-", getuid(), "-"); }

LabPaths LabDirectories::PathsOf(std::string_view name) const {
  return LabPaths{absl::StrCat(parent_, "/", Prefix(), std::string(name))};
}

absl::StatusOr<UniqueFd> LabDirectories::CreateAndLock(std::string_view name) const {
  LabPaths paths = PathsOf(name);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    MCCS_ASSIGN_OR_RETURN(bool held, IsLocked(name));
    if (held) {
      return absl::AlreadyExistsError(absl::StrCat(
          "lab '", std::string(name), "' is already running; stop it with 'mccs-lab down --name ",
          std::string(name), "' or choose another --name"));
    }
    if (mkdir(paths.root.c_str(), 0700) != 0) {
      if (errno == EEXIST) continue;
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", paths.root));
    }
    MCCS_ASSIGN_OR_RETURN(std::optional<LockedDirectory> ours, TryLock(paths));
    if (ours && ours->is_ours) return std::move(ours->lock);
  }
  return absl::AbortedError(
      absl::StrCat("cannot create ", paths.root, ": other processes keep replacing it; try again"));
}

absl::StatusOr<bool> LabDirectories::IsLocked(std::string_view name) const {
  LabPaths paths = PathsOf(name);
  MCCS_ASSIGN_OR_RETURN(std::optional<LockedDirectory> holder, TryLock(paths));
  if (!holder) return false;
  if (!holder->is_ours) return true;
  MCCS_RETURN_IF_ERROR(RemoveLabDirectory(paths));
  return false;
}

std::vector<std::string> LabDirectories::RunningNames() const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent_, ignored)) {
    std::string directory = entry.path().filename();
    if (directory.rfind(Prefix(), 0) != 0) continue;
    std::string name = directory.substr(Prefix().size());
    if (!ValidateLabName(name).ok()) continue;
    absl::StatusOr<bool> held = IsLocked(name);
    if (held.ok() && *held) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveLabDirectory(const LabPaths& paths) {
  std::error_code error;
  std::filesystem::remove_all(paths.root, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot remove ", paths.root));
  return absl::OkStatus();
}

absl::StatusOr<LabState> FindLab(const Caller& caller, const std::string& name) {
  MCCS_RETURN_IF_ERROR(ValidateLabName(name));
  MCCS_ASSIGN_OR_RETURN(bool held, caller.directories.IsLocked(name));
  if (!held) {
    std::string others;
    for (const std::string& other : caller.directories.RunningNames())
      absl::StrAppend(&others, " ", other);
    return absl::NotFoundError(absl::StrCat(
        "lab '", name, "' does not exist; ",
        others.empty() ? "start one with 'mccs-lab up'" : absl::StrCat("running labs:", others)));
  }
  return ReadState(caller.directories.PathsOf(name));
}

absl::StatusOr<LabState> FindReadyLab(const Caller& caller, const std::string& name) {
  MCCS_ASSIGN_OR_RETURN(LabState lab, FindLab(caller, name));
  if (!lab.ready)
    return absl::UnavailableError(absl::StrCat("lab '", name, "' is still starting; retry later"));
  return lab;
}

}  // namespace mccs::lab
