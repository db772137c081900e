#include "tools/mccsctl/text_diff.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

constexpr size_t kContextLines = 3;
// Limit of cells in the table of common subsequences; beyond it lines are not matched one by one.
constexpr size_t kMaxCells = 4'000'000;

using Lines = std::vector<std::string_view>;

Lines Split(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// A line of the result: in both texts (' '), only in the first ('-') or in the second ('+').
struct Edit {
  char sign;
  std::string_view line;
};

// Diffs the part between common prefix and suffix by the longest common subsequence.
void AppendMiddle(const Lines& a, const Lines& b, std::vector<Edit>* edits) {
  size_t i = 0, j = 0;
  if (a.size() * b.size() <= kMaxCells) {
    const size_t width = b.size() + 1;
    // common[i * width + j]: length for a[i..] and b[j..].
    std::vector<uint32_t> common((a.size() + 1) * width);
    for (size_t x = a.size(); x-- > 0;) {
      for (size_t y = b.size(); y-- > 0;) {
        common[x * width + y] =
            a[x] == b[y] ? common[(x + 1) * width + y + 1] + 1
                         : std::max(common[(x + 1) * width + y], common[x * width + y + 1]);
      }
    }
    while (i < a.size() && j < b.size()) {
      if (a[i] == b[j]) {
        edits->push_back({' ', a[i]});
        ++i, ++j;
      } else if (common[(i + 1) * width + j] >= common[i * width + j + 1]) {
        edits->push_back({'-', a[i++]});
      } else {
        edits->push_back({'+', b[j++]});
      }
    }
  }
  while (i < a.size()) edits->push_back({'-', a[i++]});
  while (j < b.size()) edits->push_back({'+', b[j++]});
}

std::vector<Edit> Edits(const Lines& a, const Lines& b) {
  std::vector<Edit> edits;
  size_t head = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) {
    edits.push_back({' ', a[head++]});
  }
  size_t tail = 0;
  while (tail < a.size() - head && tail < b.size() - head &&
         a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) {
    ++tail;
  }
  AppendMiddle(Lines(a.begin() + head, a.end() - tail), Lines(b.begin() + head, b.end() - tail),
               &edits);
  for (size_t i = a.size() - tail; i < a.size(); ++i) edits.push_back({' ', a[i]});
  return edits;
}

// "5,3": 3 lines from line 5 on. An empty range starts at the line before.
std::string Range(size_t first, size_t count) {
  return count == 1 ? absl::StrCat(first)
                    : absl::StrCat(count == 0 ? first - 1 : first, ",", count);
}

}  // namespace

std::string UnifiedDiff(const NamedText& before, const NamedText& after) {
  if (before.text == after.text) return "";
  const Lines a = Split(before.text), b = Split(after.text);
  const std::vector<Edit> edits = Edits(a, b);
  std::string text = absl::StrCat("--- ", before.name, "\n+++ ", after.name, "\n");
  size_t a_line = 1, b_line = 1, at = 0;
  while (at < edits.size()) {
    size_t change = at;
    while (change < edits.size() && edits[change].sign == ' ') ++change;
    if (change == edits.size()) break;
    const size_t begin = std::max(at, change - std::min(change, kContextLines));
    // Extend the hunk while the next change is near.
    size_t end = change, last = change;
    while (end < edits.size() && end - last <= 2 * kContextLines + 1) {
      if (edits[end].sign != ' ') last = end;
      ++end;
    }
    end = std::min(edits.size(), last + 1 + kContextLines);
    a_line += begin - at;
    b_line += begin - at;
    size_t a_count = 0, b_count = 0;
    std::string body;
    for (size_t i = begin; i < end; ++i) {
      a_count += edits[i].sign != '+';
      b_count += edits[i].sign != '-';
      absl::StrAppend(&body, std::string(1, edits[i].sign), std::string(edits[i].line), "\n");
    }
    absl::StrAppend(&text, "@@ -", Range(a_line, a_count), " +", Range(b_line, b_count), " @@\n",
                    body);
    a_line += a_count;
    b_line += b_count;
    at = end;
  }
  return text;
}

}  // namespace mccs
