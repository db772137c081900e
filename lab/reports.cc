#include "lab/reports.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "lab/lab_state.h"

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

// One line for each row, columns aligned. REQUIRES: rows of equal length, the first the headings.
std::string Table(const std::vector<Cells>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Cells& cells : rows) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string table;
  for (const Cells& cells : rows) table += Line(cells, widths);
  return table;
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

std::string StatusJson(const std::vector<LabState>& labs) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  for (const LabState& lab : labs) {
    entries.push_back(ToJson(lab));
    entries.back()["network"] = lab.has_network() ? "namespaces" : "processes";
  }
  return entries.dump(kJsonIndent) + "\n";
}

namespace {

const char* StateOf(const LinkLine& line) { return line.is_up ? "up" : "down"; }

}  // namespace

std::string LinkTable(const std::vector<LinkLine>& lines) {
  std::vector<Cells> rows = {{"LINK", "FROM", "TO", "BYTES", "RATE", "STATE"}};
  for (const LinkLine& line : lines) {
    rows.push_back({line.link, line.from, line.to, absl::StrCat(line.bytes),
                    FormatBitRate(static_cast<double>(line.rate_bps)), StateOf(line)});
  }
  return Table(rows);
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
