#include "base/closest_word.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace mccs {
namespace {

constexpr size_t kMaxEdits = 2;

// Levenshtein distance, computed row by row.
size_t Edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row.back();
}

}  // namespace

const std::string* ClosestWord(std::string_view word, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t best_edits = kMaxEdits + 1;
  for (const std::string& candidate : known) {
    const size_t edits = Edits(word, candidate);
    if (edits < best_edits && 2 * edits < word.size()) {
      best = &candidate;
      best_edits = edits;
    }
  }
  return best;
}

}  // namespace mccs
