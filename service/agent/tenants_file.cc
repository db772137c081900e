#include "service/agent/tenants_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace mccs {
namespace {

std::string HeaderOf(size_t bytes) { return absl::StrCat("mccs-tenants 1 ", bytes, "\n"); }

bool WriteAll(FileCalls& calls, int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = calls.Write(fd, text);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

int FileCalls::Create(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}
ssize_t FileCalls::Write(int fd, std::string_view bytes) {
  return write(fd, bytes.data(), bytes.size());
}
int FileCalls::Sync(int fd) { return fsync(fd); }
int FileCalls::Rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str());
}
void FileCalls::Remove(const std::string& path) { unlink(path.c_str()); }

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

absl::StatusOr<agent::v1::Tenants> TenantsFile::Load() {
  absl::StatusOr<agent::v1::Tenants> tenants = ReadTenantsFile(path_);
  if (tenants.ok()) kept_ = tenants->SerializeAsString();
  return tenants;
}

absl::Status TenantsFile::Keep(const agent::v1::Tenants& tenants) {
  std::string body = tenants.SerializeAsString();
  if (body == kept_) return absl::OkStatus();
  // One name: the next write replaces what a death in this one leaves.
  const std::string draft = absl::StrCat(path_, ".draft");
  const UniqueFd fd(calls_->Create(draft));
  // Sync: the new name must not reach the disk before its content.
  if (fd.valid() && WriteAll(*calls_, fd.get(), HeaderOf(body.size()) + body) &&
      calls_->Sync(fd.get()) == 0 && calls_->Rename(draft, path_) == 0) {
    kept_ = std::move(body);
    return absl::OkStatus();
  }
  const std::string why = std::strerror(errno);
  calls_->Remove(draft);
  return absl::UnavailableError(
      absl::StrCat("cannot keep the Tenants in ", path_, ": ", why,
                   "; without it they do not hold after a restart while the controller is away: "
                   "check `tenants_file`, and that its disk has space"));
}

}  // namespace mccs
