#include "base/utf8.h"

namespace mccs {

size_t FirstCharacterBytes(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xC2 ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong encodings, UTF-16 surrogates, values above U+10FFFF.
  const bool wrong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
                     (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F);
  return wrong ? 0 : length;
}

std::string AsUtf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const size_t length = FirstCharacterBytes(bytes);
    if (length == 0) {
      text += '?';
    } else {
      text += bytes.substr(0, length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

std::string CutText(std::string_view text, size_t most_bytes) {
  constexpr size_t kLongestCharacter = 4;
  if (text.size() <= most_bytes) return std::string(text);
  const auto goes_on = [&](size_t i) {  // a continuation byte
    return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
  };
  size_t end = most_bytes;
  while (end > 0 && most_bytes - end < kLongestCharacter && goes_on(end)) --end;
  return std::string(text.substr(0, end));
}

}  // namespace mccs
