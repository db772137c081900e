#include "lab/lab_state.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

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
                                 {"nodes", nlohmann::ordered_json::array()}};
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
    return absl::InvalidArgumentError("expected a host, not the controller");
  }
  return Find(host);
}

absl::StatusOr<pid_t> LabState::NodeHolder(std::string_view node) const {
  if (!has_network()) return 0;
  for (const NodeState& candidate : nodes) {
    if (candidate.name == node) return candidate.pid;
  }
  std::string names = absl::StrJoin(nodes, ", ", [](std::string* out, const NodeState& candidate) {
    out->append(candidate.name);
  });
  return absl::NotFoundError(
      absl::StrCat("lab '", name, "' has no node '", std::string(node), "'; it has ", names));
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

std::string LabPaths::DaemonDirectory(std::string_view daemon) const {
  return absl::StrCat(root, "/", std::string(daemon));
}

std::string LabPaths::Socket(std::string_view host, std::string_view tenant) const {
  return absl::StrCat(DaemonDirectory(host), "/", tenant.empty() ? "mccsd" : "tenant-",
                      std::string(tenant), ".sock");
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
  MCCS_RETURN_IF_ERROR(yaml.Finish());
  return state;
}

}  // namespace mccs::lab
