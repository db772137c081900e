#include "trust/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace mccs {

absl::Status FileError(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

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

absl::Status WriteNewFile(const std::string& path, const std::string& text, mode_t mode) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file.valid()) return FileError("create", path);
  for (size_t written = 0; written < text.size();) {
    const ssize_t bytes = write(file.get(), text.data() + written, text.size() - written);
    if (bytes < 0) return FileError("write", path);
    written += static_cast<size_t>(bytes);
  }
  return fsync(file.get()) == 0 ? absl::OkStatus() : FileError("write", path);
}

}  // namespace mccs
