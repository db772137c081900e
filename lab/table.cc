#include "lab/table.h"

#include <algorithm>

namespace mccs::lab {
namespace {

constexpr size_t kColumnGap = 2;

std::string Line(const Cells& cells, const std::vector<size_t>& widths) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    line += cells[i];
    if (i + 1 < cells.size()) line.append(widths[i] + kColumnGap - cells[i].size(), ' ');
  }
  return line + "\n";
}

}  // namespace

std::string Table(const std::vector<Cells>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Cells& cells : rows) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string table;
  for (const Cells& cells : rows) table += Line(cells, widths);
  return table;
}

}  // namespace mccs::lab
