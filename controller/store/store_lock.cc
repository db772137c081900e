#include "controller/store/store_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

std::string FirstLine(const std::string& file) {
  std::string line;
  std::getline(std::ifstream(file) >> std::ws, line);
  return line;
}

// Equals the kernel's limit.
constexpr int kMaxLinks = 40;

// Resolves symbolic links as SQLite does, so that all paths to a store have one lock. Also follows
// links to a file that does not exist yet, which SQLite creates.
std::string Resolved(const std::string& store) {
  std::error_code error;
  std::filesystem::path path = store;
  for (int links = 0; links < kMaxLinks; ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) break;  // Not a link.
    path = path.parent_path() / target;
  }
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(path, error);
  return error ? store : resolved.string();
}

}  // namespace

absl::Status LockError(int error, const std::string& store, const std::string& file) {
  if (error != EWOULDBLOCK) {
    return absl::ErrnoToStatus(error, absl::StrCat("the store ", store, ": cannot lock ", file,
                                                   "; use a file system with locks"));
  }
  const std::string owner = FirstLine(file);
  return absl::AlreadyExistsError(
      absl::StrCat("the store ", store, " is in use by another mccs-controller",
                   owner.empty() ? "" : absl::StrCat(" (process ", owner, ")"),
                   "; stop that one, or choose another store (--store FILE)"));
}

absl::StatusOr<UniqueFd> LockStore(const std::string& store) {
  // Another hard link would have another lock and another journal.
  struct stat facts {};
  if (stat(store.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the store ", store, " has ", facts.st_nlink,
        " hard links, so the lock cannot protect it; remove the others, or copy the file"));
  }
  const std::string file = absl::StrCat(Resolved(store), ".lock");
  UniqueFd fd(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(
        errno,
        absl::StrCat("the store ", store, ": cannot write ", file,
                     "; check that its directory exists and that this user may write there"));
  }
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return LockError(errno, store, file);
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd.get(), 0) != 0 ||
      write(fd.get(), pid.data(), pid.size()) != static_cast<ssize_t>(pid.size())) {
    return absl::ErrnoToStatus(errno, absl::StrCat("the store ", store, ": cannot write ", file));
  }
  return fd;
}

}  // namespace mccs
