#include "trust/read_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace mccs {

absl::StatusOr<std::string> ReadTextFile(const std::string& what, const std::string& path) {
  if (path.empty())
    return absl::InvalidArgumentError(absl::StrCat("tls: the file of ", what, " is not set"));
  errno = 0;
  std::ifstream file(path);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (file && !text.str().empty()) return text.str();
  const int error = errno;
  const std::string message = absl::StrCat("tls: cannot read ", what, " ", path, ": ",
                                           error != 0 ? strerror(error) : "the file is empty");
  if (error == EACCES) return absl::PermissionDeniedError(message);
  if (error == ENOENT) return absl::NotFoundError(message);
  return absl::InvalidArgumentError(message);
}

}  // namespace mccs
