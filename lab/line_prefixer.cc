#include "lab/line_prefixer.h"

#include <algorithm>

namespace mccs::lab {

std::string LinePrefixer::Take(std::string_view piece) {
  std::string out;
  while (!piece.empty()) {
    size_t newline = piece.find('\n');
    size_t room = kMaxLineBytes - unfinished_.size();
    size_t taken = std::min({newline, piece.size(), room});
    unfinished_.append(piece.substr(0, taken));
    piece.remove_prefix(taken);
    bool ends_line = !piece.empty() && piece.front() == '\n';
    if (ends_line) piece.remove_prefix(1);
    if (ends_line || unfinished_.size() == kMaxLineBytes) {
      out += prefix_ + unfinished_ + '\n';
      unfinished_.clear();
    }
  }
  return out;
}

std::string LinePrefixer::Finish() {
  if (unfinished_.empty()) return "";
  std::string out = prefix_ + unfinished_ + '\n';
  unfinished_.clear();
  return out;
}

}  // namespace mccs::lab
