#include "service/agent/tenants_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace mccs {
namespace {

std::string HeaderOf(size_t bytes) { return absl::StrCat("mccs-tenants 1 ", bytes, "\n"); }

bool WriteAll(int fd, const std::string& text) {
  for (size_t written = 0; written < text.size();) {
    const ssize_t n = write(fd, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    written += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

absl::StatusOr<agent::v1::Tenants> ReadTenantsFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::ostringstream text;
  text << file.rdbuf();
  const std::string content = text.str();
  const size_t end = content.find('\n');
  agent::v1::Tenants tenants;
  if (end != content.npos && content.substr(0, end + 1) == HeaderOf(content.size() - end - 1) &&
      tenants.ParseFromString(content.substr(end + 1))) {
    return tenants;
  }
  return absl::DataLossError(
      absl::StrCat(path,
                   " is not a complete table of Tenants: the Tenants apply when the controller "
                   "has sent them; remove the file if the message returns"));
}

absl::Status WriteTenantsFile(const std::string& path, const agent::v1::Tenants& tenants) {
  const std::string body = tenants.SerializeAsString();
  // One name: the next write replaces what a death in this one leaves.
  const std::string draft = absl::StrCat(path, ".draft");
  const UniqueFd fd(open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  // fsync: the new name must not reach the disk before its content.
  if (fd.valid() && WriteAll(fd.get(), HeaderOf(body.size()) + body) && fsync(fd.get()) == 0 &&
      std::rename(draft.c_str(), path.c_str()) == 0) {
    return absl::OkStatus();
  }
  const std::string why = std::strerror(errno);
  unlink(draft.c_str());
  return absl::UnavailableError(
      absl::StrCat("cannot keep the Tenants in ", path, ": ", why,
                   "; without it they do not hold after a restart while the controller is away: "
                   "check `tenants_file`, and that its disk has space"));
}

}  // namespace mccs
