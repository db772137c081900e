// Text in columns, as a terminal shows it.
#ifndef MCCS_TOOLS_MCCSCTL_TABLE_H_
#define MCCS_TOOLS_MCCSCTL_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace mccs {

enum class Align { kLeft, kRight };

struct Column {
  std::string head;
  Align align = Align::kLeft;
};

// Columns as wide as their widest cell, two spaces apart; no blanks at the ends of lines. Control
// characters of a cell are shown as '?': what a tenant named must not move the operator's cursor.
class Table {
 public:
  explicit Table(std::vector<Column> columns, std::string indent = "")
      : columns_(std::move(columns)), indent_(std::move(indent)) {}

  // REQUIRES: as many cells as columns.
  void Row(std::vector<std::string> cells);
  std::string Text() const;

 private:
  std::vector<Column> columns_;
  std::string indent_;
  std::vector<std::vector<std::string>> rows_;
};

// Characters that UTF-8 `text` takes on the screen, if each takes one cell.
size_t DisplayWidth(std::string_view text);

// `text` with every control character replaced by '?'.
std::string Printable(std::string_view text);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_TABLE_H_
