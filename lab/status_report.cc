#include "lab/status_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lab/table.h"

namespace mccs::lab {
namespace {

std::string DaemonJson(const DaemonState& daemon) {
  return absl::StrCat(R"({"name": ")", daemon.name, R"(", "address": ")", daemon.address,
                      R"(", "pid": )", daemon.pid, R"(, "condition": ")", daemon.condition,
                      R"(", "endpoint": ")", daemon.endpoint, R"(", "metrics": ")", daemon.metrics,
                      R"(", "gpus": )", daemon.gpus, "}");
}

}  // namespace

std::string StatusTable(const std::vector<LabState>& labs) {
  if (labs.empty()) return "no labs\n";
  std::vector<Cells> rows = {{"LAB", "DAEMON", "GPUS", "ENDPOINT", "METRICS", "PID", "CONDITION"}};
  for (const LabState& lab : labs) {
    for (const DaemonState& daemon : lab.daemons) {
      bool is_host = daemon.name != kControllerName;
      rows.push_back({lab.name, daemon.name, is_host ? absl::StrCat(daemon.gpus) : "-",
                      daemon.endpoint.empty() ? "-" : daemon.endpoint,
                      daemon.metrics.empty() ? "-" : daemon.metrics,
                      daemon.pid > 0 ? absl::StrCat(daemon.pid) : "-", daemon.condition});
    }
  }
  return Table(rows);
}

// No value needs escaping: LabDirectories restricts the characters of names, and the lab writes the
// other values.
std::string StatusJson(const std::vector<LabState>& labs) {
  std::vector<std::string> entries;
  for (const LabState& lab : labs) {
    std::vector<std::string> daemons;
    for (const DaemonState& daemon : lab.daemons) daemons.push_back(DaemonJson(daemon));
    std::vector<std::string> nodes;
    for (const NodeState& node : lab.nodes) {
      nodes.push_back(absl::StrCat(R"({"name": ")", node.name, R"(", "pid": )", node.pid, "}"));
    }
    entries.push_back(absl::StrCat(
        R"({"name": ")", lab.name, R"(", "ready": )", lab.ready ? "true" : "false",
        R"(, "supervisor_pid": )", lab.supervisor_pid, R"(, "network": ")",
        lab.has_network() ? "namespaces" : "processes", R"(", "daemons": [)",
        absl::StrJoin(daemons, ", "), R"(], "nodes": [)", absl::StrJoin(nodes, ", "), "]}"));
  }
  return absl::StrCat("[", absl::StrJoin(entries, ", "), "]\n");
}

}  // namespace mccs::lab
