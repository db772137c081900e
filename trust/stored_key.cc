#include "trust/stored_key.h"

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trust/files.h"

namespace mccs {
namespace {

absl::StatusOr<std::string> ParseKey(const std::string& path, const std::string& text) {
  const std::string hex(absl::StripAsciiWhitespace(text));
  const bool valid = hex.size() == 2 * kStoredKeyBytes &&
                     hex.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (valid) return absl::HexStringToBytes(hex);
  return absl::DataLossError(absl::StrCat(path, " has no key of ", 2 * kStoredKeyBytes,
                                          " hexadecimal digits; remove it to get a new one"));
}

}  // namespace

std::string MakeKey(Random& random) {
  std::string key(kStoredKeyBytes, '\0');
  random.Fill(std::as_writable_bytes(std::span(key)));
  return key;
}

absl::StatusOr<std::string> ReadOrMakeKey(const std::string& path, Random& random) {
  const absl::StatusOr<std::string> text = ReadTextFile("the key", path);
  if (text.ok()) return ParseKey(path, *text);
  if (!absl::IsNotFound(text.status())) return text.status();
  const std::string key = MakeKey(random);
  // Under its name it is always complete.
  const std::string draft = absl::StrCat(path, ".", getpid());
  MCCS_RETURN_IF_ERROR(
      WriteNewFile(draft, absl::StrCat(absl::BytesToHexString(key), "\n"), kPrivateFile));
  if (std::rename(draft.c_str(), path.c_str()) == 0) return key;
  const absl::Status failed = FileError("create", path);
  unlink(draft.c_str());
  return failed;
}

}  // namespace mccs
