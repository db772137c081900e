// Text in aligned columns for a terminal.
#ifndef MCCS_BASE_TABLE_H_
#define MCCS_BASE_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace mccs {

enum class Align { kLeft, kRight };

struct Column {
  std::string head;
  Align align = Align::kLeft;
};

// Columns are as wide as their widest cell, two spaces apart, without trailing spaces. Control
// characters are shown as '?', so that names chosen by tenants cannot control the terminal.
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

// Text of a cell without a value, and indentation of nested lines.
inline constexpr char kNone[] = "-";
inline constexpr char kIndent[] = "  ";

inline std::string OrDash(const std::string& text) { return text.empty() ? kNone : text; }

// Number of characters of UTF-8 `text`; each is assumed to take one cell.
size_t DisplayWidth(std::string_view text);

// `text` with every control character replaced by '?'.
std::string Printable(std::string_view text);

}  // namespace mccs

#endif  // MCCS_BASE_TABLE_H_
