#include "lab/status_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lab/table.h"

namespace mccs::lab {

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

std::string StatusJson(const std::vector<LabState>& labs) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const LabState& lab : labs) {
    entries.push_back(ToJson(lab));
    entries.back()["network"] = lab.has_network() ? "namespaces" : "processes";
  }
  return entries.dump(kJsonIndent) + "\n";
}

}  // namespace mccs::lab
