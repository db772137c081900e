// Texts that leave the process: protobuf takes no other ones than UTF-8 (RFC 3629), and refuses the
// whole message for one byte.
#ifndef MCCS_BASE_UTF8_H_
#define MCCS_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace mccs {

// Of the character that `text` begins with; 0: it is none, or there is none.
size_t FirstCharacterBytes(std::string_view text);

// With a '?' for each byte that is of no character.
std::string AsUtf8(std::string_view bytes);

// The first characters of `text` that take `most_bytes` at most, none of them in part.
std::string CutText(std::string_view text, size_t most_bytes);

}  // namespace mccs

#endif  // MCCS_BASE_UTF8_H_
