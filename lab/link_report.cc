#include "lab/link_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/units.h"
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

// No value needs escaping: the topology reader restricts the characters of names.
std::string LinkJson(const std::vector<LinkLine>& lines) {
  std::vector<std::string> entries;
  for (const LinkLine& line : lines) {
    entries.push_back(absl::StrCat(R"({"link": ")", line.link, R"(", "from": ")", line.from,
                                   R"(", "to": ")", line.to, R"(", "bytes": )", line.bytes,
                                   R"(, "rate_bps": )", line.rate_bps, R"(, "state": ")",
                                   StateOf(line), R"("})"));
  }
  return absl::StrCat("[", absl::StrJoin(entries, ", "), "]\n");
}

}  // namespace mccs::lab
