#include "topology/named_parts.h"

#include <arpa/inet.h>

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

namespace {

constexpr size_t kMaxNameLetters = 64;

bool IsAddress(const std::string& text) {
  in6_addr address{};  // large enough for IPv4 and IPv6
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

}  // namespace

bool IsPartName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLetters &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '_' || c == '.';
         });
}

std::vector<std::string> ReadNames(YamlReader& entry, std::string_view key, Need need) {
  std::string pattern;
  const bool there = entry.Has(key);
  entry.Field(key, &pattern, need);
  if (!there) return {};
  return ExpandNamesOf(entry, key, pattern);
}

std::vector<std::string> ExpandNamesOf(YamlReader& entry, std::string_view key,
                                       std::string_view pattern) {
  absl::StatusOr<std::vector<std::string>> names = ExpandNames(pattern);
  if (!names.ok()) {
    entry.Reject(key, std::string(names.status().message()));
    return {};
  }
  for (const std::string& name : *names) {
    if (IsPartName(name)) continue;
    entry.Reject(key, absl::StrCat("invalid name '", name, "': ", kPartNameRule));
    return {};
  }
  return *std::move(names);
}

std::vector<std::string> ExpandAddresses(YamlReader& entry, std::string_view key,
                                         std::string_view pattern, size_t count,
                                         std::string_view of_what, UniqueNames& known) {
  absl::StatusOr<std::vector<std::string>> addresses = ExpandNames(pattern);
  if (!addresses.ok()) {
    entry.Reject(key, std::string(addresses.status().message()));
    return {};
  }
  if (addresses->size() != count) {
    entry.Reject(
        key, absl::StrCat(addresses->size(), " addresses for ", count, " ", std::string(of_what)));
    return {};
  }
  for (const std::string& address : *addresses) {
    if (!IsAddress(address)) {
      entry.Reject(key, absl::StrCat("invalid address '", address,
                                     "': expected a numeric one, such as 10.0.1.2 or fd00::2"));
      return {};
    }
    if (!known.Add(entry, key, address)) return {};
  }
  return *std::move(addresses);
}

bool UniqueNames::Add(YamlReader& entry, std::string_view key, const std::string& name) {
  const auto [known, is_new] = lines_.try_emplace(name, entry.Line(key));
  if (is_new) return true;
  entry.Reject(
      key, absl::StrCat("'", name, "' is a duplicate: first on line ", known->second, "; ", rule_));
  return false;
}

std::optional<int> UniqueNames::LineOf(const std::string& name) const {
  const auto found = lines_.find(name);
  if (found == lines_.end()) return std::nullopt;
  return found->second;
}

}  // namespace mccs
