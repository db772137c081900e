// UTF-8, for protobuf, which rejects a whole message for one invalid byte, and for YAML.
#ifndef MCCS_BASE_UTF8_H_
#define MCCS_BASE_UTF8_H_

#include <utf8.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mccs {

// The longest prefix of at most `most_bytes` bytes that is valid UTF-8.
inline std::string CutText(std::string_view text, size_t most_bytes) {
  text = text.substr(0, most_bytes);
  return std::string(text.substr(0, utf8::find_invalid(text)));
}

// kInvalidArgument: the file `name` is not UTF-8, or contains a control character other than tabs
// and line breaks; has the place and the remedy.
absl::Status CheckText(std::string_view text, const std::string& name);

}  // namespace mccs

#endif  // MCCS_BASE_UTF8_H_
