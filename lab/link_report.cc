#include "lab/link_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "lab/lab_state.h"
#include "lab/table.h"

namespace mccs::lab {
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
