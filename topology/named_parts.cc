#include "topology/named_parts.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "topology/name_pattern.h"

namespace mccs {
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
    entry.Refuse(key, std::string(names.status().message()));
    return {};
  }
  for (const std::string& name : *names) {
    if (IsPartName(name)) continue;
    entry.Refuse(key, absl::StrCat("'", name, "' is not a valid name; ", kPartNameRule));
    return {};
  }
  return *std::move(names);
}

std::vector<std::string> ExpandAddresses(YamlReader& entry, std::string_view key,
                                         std::string_view pattern, size_t count,
                                         std::string_view of_what, UniqueNames& known) {
  absl::StatusOr<std::vector<std::string>> addresses = ExpandNames(pattern);
  if (!addresses.ok()) {
    entry.Refuse(key, std::string(addresses.status().message()));
    return {};
  }
  if (addresses->size() != count) {
    entry.Refuse(
        key, absl::StrCat(addresses->size(), " addresses for ", count, " ", std::string(of_what)));
    return {};
  }
  for (const std::string& address : *addresses) {
    if (!IsAddress(address)) {
      entry.Refuse(
          key,
          absl::StrCat("'", address,
                       "' is not an address: expected a numeric one, such as 10.0.1.2 or fd00::2"));
      return {};
    }
    if (!known.Add(entry, key, address)) return {};
  }
  return *std::move(addresses);
}

bool UniqueNames::Add(YamlReader& entry, std::string_view key, const std::string& name) {
  const auto [known, is_new] = lines_.try_emplace(name, entry.Line(key));
  if (is_new) return true;
  entry.Refuse(
      key, absl::StrCat("'", name, "' is a duplicate: first on line ", known->second, "; ", rule_));
  return false;
}

std::optional<int> UniqueNames::LineOf(const std::string& name) const {
  const auto found = lines_.find(name);
  if (found == lines_.end()) return std::nullopt;
  return found->second;
}

}  // namespace mccs
