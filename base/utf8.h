// Strings for protobuf, which accepts only UTF-8 (RFC 3629) and rejects a whole message for one
// invalid byte.
#ifndef MCCS_BASE_UTF8_H_
#define MCCS_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace mccs {

// Length in bytes of the first character of `text`; 0: invalid, or `text` is empty.
size_t FirstCharacterBytes(std::string_view text);

// Replaces each byte that is not part of a valid character by '?'.
std::string AsUtf8(std::string_view bytes);

// The longest prefix of whole characters with at most `most_bytes` bytes.
std::string CutText(std::string_view text, size_t most_bytes);

}  // namespace mccs

#endif  // MCCS_BASE_UTF8_H_
