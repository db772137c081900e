#include "base/utf8.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

bool IsForbidden(char c) {
  return absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '\t' && c != '\n' && c != '\r';
}

// "name:7:3: ", where text[offset] is. REQUIRES: what is before it is UTF-8.
std::string PlaceOf(std::string_view text, size_t offset, const std::string& name) {
  const std::string_view before = text.substr(0, offset);
  const size_t line_start = before.rfind('\n') + 1;  // 0 in the first line
  return absl::StrCat(name, ":", std::count(before.begin(), before.end(), '\n') + 1, ":",
                      utf8::distance(before.begin() + line_start, before.end()) + 1, ": ");
}

}  // namespace

absl::Status CheckText(std::string_view text, const std::string& name) {
  const size_t invalid = utf8::find_invalid(text);
  if (invalid != text.npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(PlaceOf(text, invalid, name), "byte 0x",
                     absl::Hex(static_cast<unsigned char>(text[invalid]), absl::kZeroPad2),
                     " is not valid UTF-8; save the file as UTF-8"));
  }
  const auto control = std::find_if(text.begin(), text.end(), IsForbidden);
  if (control == text.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      PlaceOf(text, static_cast<size_t>(control - text.begin()), name), "control character 0x",
      absl::Hex(static_cast<unsigned char>(*control), absl::kZeroPad2),
      " is not allowed; remove it"));
}

}  // namespace mccs
