#include "controller/objects/spec_fields.h"

#include <charconv>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace mccs {

std::vector<std::string> ReadUniqueList(YamlReader* yaml, std::string_view key) {
  std::vector<std::string> names;
  yaml->Field(key, &names);
  std::set<std::string> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) {
      yaml->RejectItem(key, i, "empty name; write a name, or remove the item");
    } else if (!seen.insert(names[i]).second) {
      yaml->RejectItem(key, i, absl::StrCat("'", names[i], "' is a duplicate; remove it"));
    }
  }
  return names;
}

std::string ExactBytes(uint64_t bytes) {
  std::string text = FormatBytes(bytes);
  return ParseBytes(text) == bytes ? text : absl::StrCat(bytes);
}

std::string ExactBitRate(uint64_t bits_per_second) {
  std::string text = FormatBitRate(static_cast<double>(bits_per_second));
  return ParseBitRate(text) == bits_per_second ? text : absl::StrCat(bits_per_second, " bit/s");
}

std::string ExactNumber(double value) {
  char text[512];  // longer than any formatted double
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed);
  return std::string(text, end.ptr);
}

}  // namespace mccs
