// Strings for protobuf, which accepts only UTF-8 and rejects a whole message for one invalid byte.
#ifndef MCCS_BASE_UTF8_H_
#define MCCS_BASE_UTF8_H_

#include <utf8.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace mccs {

// The longest prefix of at most `most_bytes` bytes that is valid UTF-8.
inline std::string CutText(std::string_view text, size_t most_bytes) {
  text = text.substr(0, most_bytes);
  return std::string(text.substr(0, utf8::find_invalid(text)));
}

}  // namespace mccs

#endif  // MCCS_BASE_UTF8_H_
