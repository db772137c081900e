#include "base/table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace mccs {
namespace {

constexpr size_t kGap = 2;

}  // namespace

size_t DisplayWidth(std::string_view text) {
  // Every byte except continuation bytes (10xxxxxx) begins a character.
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string Printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

void Table::Row(std::vector<std::string> cells) {
  MCCS_CHECK(cells.size() == columns_.size());
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::Text() const {
  std::vector<size_t> widths;
  std::vector<std::string> heads;
  for (size_t c = 0; c < columns_.size(); ++c) {
    heads.push_back(columns_[c].head);
    size_t width = DisplayWidth(columns_[c].head);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[c]));
    widths.push_back(width);
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line = indent_;
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string blanks(widths[c] - DisplayWidth(cells[c]), ' ');
      if (c > 0) line.append(kGap, ' ');
      line += columns_[c].align == Align::kRight ? blanks + cells[c] : cells[c] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add(heads);
  for (const auto& row : rows_) add(row);
  return text;
}

}  // namespace mccs
