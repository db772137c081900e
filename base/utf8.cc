#include "base/utf8.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mccs {

absl::Status CheckUtf8(std::string_view text, const std::string& name) {
  const size_t invalid = utf8::find_invalid(text);
  if (invalid == text.npos) return absl::OkStatus();
  const std::string_view before = text.substr(0, invalid);
  const size_t line_start = before.rfind('\n') + 1;  // 0 in the first line
  return absl::InvalidArgumentError(
      absl::StrCat(name, ":", std::count(before.begin(), before.end(), '\n') + 1, ":",
                   utf8::distance(before.begin() + line_start, before.end()) + 1, ": byte 0x",
                   absl::Hex(static_cast<unsigned char>(text[invalid]), absl::kZeroPad2),
                   " is not valid UTF-8; save the file as UTF-8"));
}

}  // namespace mccs
