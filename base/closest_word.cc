#include "base/closest_word.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "absl/strings/str_cat.h"

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

std::string Suggestion(std::string_view word, const std::vector<std::string>& known,
                       std::string_view remedy) {
  if (const std::string* near = ClosestWord(word, known))
    return absl::StrCat("; did you mean '", *near, "'?");
  return remedy.empty() ? "" : absl::StrCat("; ", std::string(remedy));
}

}  // namespace mccs
