#include "lab/status_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mccs::lab {
namespace {

using Cells = std::vector<std::string>;
constexpr size_t kColumnGap = 2;

std::string Line(const Cells& cells, const std::vector<size_t>& widths) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    line += cells[i];
    if (i + 1 < cells.size()) line.append(widths[i] + kColumnGap - cells[i].size(), ' ');
  }
  return line + "\n";
}

std::string DaemonJson(const DaemonState& daemon) {
  return absl::StrCat(R"({"name": ")", daemon.name, R"(", "address": ")", daemon.address,
                      R"(", "pid": )", daemon.pid, R"(, "condition": ")", daemon.condition,
                      R"(", "endpoint": ")", daemon.endpoint, R"("})");
}

}  // namespace

std::string StatusTable(const std::vector<LabState>& labs) {
  if (labs.empty()) return "no labs\n";
  std::vector<Cells> rows = {{"LAB", "DAEMON", "GPUS", "ENDPOINT", "PID", "CONDITION"}};
  for (const LabState& lab : labs) {
    for (const DaemonState& daemon : lab.daemons) {
      bool is_host = daemon.name != kControllerName;
      rows.push_back({lab.name, daemon.name, is_host ? absl::StrCat(lab.size.gpus_per_host) : "-",
                      daemon.endpoint.empty() ? "-" : daemon.endpoint,
                      daemon.pid > 0 ? absl::StrCat(daemon.pid) : "-", daemon.condition});
    }
  }
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Cells& cells : rows) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string table;
  for (const Cells& cells : rows) table += Line(cells, widths);
  return table;
}

// No text needs escapes: names are of LabDirectories' letters, the rest are words and addresses of
// the lab's own.
std::string StatusJson(const std::vector<LabState>& labs) {
  std::vector<std::string> entries;
  for (const LabState& lab : labs) {
    std::vector<std::string> daemons;
    for (const DaemonState& daemon : lab.daemons) daemons.push_back(DaemonJson(daemon));
    entries.push_back(absl::StrCat(R"({"name": ")", lab.name, R"(", "ready": )",
                                   lab.ready ? "true" : "false", R"(, "supervisor_pid": )",
                                   lab.supervisor_pid, R"(, "hosts": )", lab.size.hosts,
                                   R"(, "gpus_per_host": )", lab.size.gpus_per_host,
                                   R"(, "daemons": [)", absl::StrJoin(daemons, ", "), "]}"));
  }
  return absl::StrCat("[", absl::StrJoin(entries, ", "), "]\n");
}

}  // namespace mccs::lab
