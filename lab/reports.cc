#include "lab/reports.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/table.h"
#include "base/units.h"
#include "lab/lab_state.h"

namespace mccs::lab {

std::string StatusTable(const std::vector<LabState>& labs) {
  if (labs.empty()) return "no labs\n";
  Table table({{"LAB"}, {"DAEMON"}, {"GPUS"}, {"ENDPOINT"}, {"METRICS"}, {"PID"}, {"CONDITION"}});
  for (const LabState& lab : labs) {
    for (const DaemonState& daemon : lab.daemons) {
      bool is_host = daemon.name != kControllerName;
      table.Row({lab.name, daemon.name, is_host ? absl::StrCat(daemon.gpus) : kNone,
                 OrDash(daemon.endpoint), OrDash(daemon.metrics),
                 daemon.pid > 0 ? absl::StrCat(daemon.pid) : kNone, daemon.condition});
    }
  }
  return table.Text();
}

std::string StatusJson(const std::vector<LabState>& labs) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const LabState& lab : labs) {
    entries.push_back(ToJson(lab));
    entries.back()["network"] = lab.has_vms()       ? "rdma-vms"
                                : lab.has_network() ? "namespaces"
                                                    : "processes";
  }
  return entries.dump(kJsonIndent) + "\n";
}

namespace {

const char* StateOf(const LinkLine& line) { return line.is_up ? "up" : "down"; }

}  // namespace

std::string LinkTable(const std::vector<LinkLine>& lines) {
  Table table({{"LINK"}, {"FROM"}, {"TO"}, {"BYTES"}, {"RATE"}, {"STATE"}});
  for (const LinkLine& line : lines) {
    table.Row({line.link, line.from, line.to, absl::StrCat(line.bytes),
               FormatBitRate(static_cast<double>(line.rate_bps)), StateOf(line)});
  }
  return table.Text();
}

std::string LinkJson(const std::vector<LinkLine>& lines) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const LinkLine& line : lines) {
    entries.push_back({{"link", line.link},
                       {"from", line.from},
                       {"to", line.to},
                       {"bytes", line.bytes},
                       {"rate_bps", line.rate_bps},
                       {"state", StateOf(line)}});
  }
  return entries.dump(kJsonIndent) + "\n";
}

}  // namespace mccs::lab
