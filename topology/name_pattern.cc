#include "topology/name_pattern.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

constexpr size_t kMaxDigits = 9;

absl::Status Wrong(std::string_view pattern, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(pattern), "' ", std::string(why)));
}

// Splits `text` at the commas outside brackets.
std::vector<std::string_view> Items(std::string_view text) {
  std::vector<std::string_view> items;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && !inside)) {
      items.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else if (text[i] == '[' || text[i] == ']') {
      inside = text[i] == '[';
    }
  }
  return items;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= kMaxDigits &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

uint32_t ToNumber(std::string_view text) {
  uint32_t number = 0;
  for (const char c : text) number = number * 10 + static_cast<uint32_t>(c - '0');
  return number;
}

// Appends the numbers of "0-3" or "07", padded to the width of the first one.
absl::Status AppendRange(std::string_view pattern, std::string_view range,
                         std::vector<std::string>& out) {
  const size_t dash = std::min(range.find('-'), range.size());
  const std::string_view first = range.substr(0, dash);
  const std::string_view last = dash == range.size() ? first : range.substr(dash + 1);
  if (!IsNumber(first) || !IsNumber(last)) {
    return Wrong(pattern,
                 "has something other than numbers in brackets; write [0-3] or "
                 "[0,2,5-7]");
  }
  const uint32_t from = ToNumber(first), to = ToNumber(last);
  if (from > to) return Wrong(pattern, "has a descending range; write the smaller number first");
  if (out.size() + (to - from) >= kMaxNamesOfPattern) {
    return Wrong(pattern, absl::StrCat("expands to more than ", kMaxNamesOfPattern, " names"));
  }
  for (uint32_t n = from; n <= to; ++n) {
    std::string digits = absl::StrCat(n);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    out.push_back(std::move(digits));
  }
  return absl::OkStatus();
}

// Combines each of `names` with each of `endings`.
absl::Status Multiply(std::string_view pattern, std::vector<std::string>& names,
                      const std::vector<std::string>& endings) {
  if (names.size() * endings.size() > kMaxNamesOfPattern) {
    return Wrong(pattern, absl::StrCat("expands to more than ", kMaxNamesOfPattern, " names"));
  }
  std::vector<std::string> product;
  product.reserve(names.size() * endings.size());
  for (const std::string& name : names) {
    for (const std::string& ending : endings) product.push_back(name + ending);
  }
  names = std::move(product);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ExpandItem(std::string_view pattern,
                                                    std::string_view item) {
  std::vector<std::string> names = {""};
  while (!item.empty()) {
    const size_t bracket = std::min(item.find_first_of("[]"), item.size());
    MCCS_RETURN_IF_ERROR(Multiply(pattern, names, {std::string(item.substr(0, bracket))}));
    item.remove_prefix(bracket);
    if (item.empty()) break;
    const size_t end = item.find_first_of("[]", 1);
    if (item.front() != '[' || end == std::string_view::npos || item[end] != ']') {
      return Wrong(pattern, "has an unmatched bracket; write ranges as [0-3]");
    }
    std::vector<std::string> numbers;
    for (const std::string_view range : Items(item.substr(1, end - 1))) {
      MCCS_RETURN_IF_ERROR(AppendRange(pattern, range, numbers));
    }
    MCCS_RETURN_IF_ERROR(Multiply(pattern, names, numbers));
    item.remove_prefix(end + 1);
  }
  return names;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandNames(std::string_view pattern) {
  std::vector<std::string> all;
  for (const std::string_view item : Items(pattern)) {
    if (item.empty()) return Wrong(pattern, "has an empty name; remove the extra comma");
    MCCS_ASSIGN_OR_RETURN(std::vector<std::string> names, ExpandItem(pattern, item));
    if (all.size() + names.size() > kMaxNamesOfPattern) {
      return Wrong(pattern, absl::StrCat("expands to more than ", kMaxNamesOfPattern, " names"));
    }
    std::move(names.begin(), names.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace mccs
