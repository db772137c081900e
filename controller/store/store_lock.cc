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

// As many as the kernel follows.
constexpr int kMaxLinks = 40;

// SQLite follows symbolic links, so that whoever comes by another one finds the same lock; also
// those to a file that is not there yet, which it makes.
std::string Resolved(const std::string& store) {
  std::error_code error;
  std::filesystem::path path = store;
  for (int links = 0; links < kMaxLinks; ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) break;  // It is none.
    path = path.parent_path() / target;
  }
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(path, error);
  return error ? store : resolved.string();
}

}  // namespace

absl::Status WhyNotLocked(int error, const std::string& store, const std::string& file) {
  if (error != EWOULDBLOCK) {
    return absl::ErrnoToStatus(
        error, absl::StrCat("the store ", store, ": cannot lock ", file,
                            "; a file system without locks is no place for a store"));
  }
  const std::string owner = FirstLine(file);
  return absl::AlreadyExistsError(
      absl::StrCat("the store ", store, " belongs to another mccs-controller",
                   owner.empty() ? "" : absl::StrCat(" (process ", owner, ")"),
                   "; stop that one, or give this one a store of its own (--store FILE)"));
}

absl::StatusOr<UniqueFd> LockStore(const std::string& store) {
  // Under another hard link there would be another lock, and another journal.
  struct stat facts {};
  if (stat(store.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the store ", store, " has ", facts.st_nlink,
        " names (hard links), by which controllers would write into it side by side; remove the "
        "others, or copy it"));
  }
  const std::string file = absl::StrCat(Resolved(store), ".lock");
  UniqueFd fd(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("the store ", store, ": cannot write ", file,
                            "; does its folder exist, and may this user write there?"));
  }
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return WhyNotLocked(errno, store, file);
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd.get(), 0) != 0 ||
      write(fd.get(), pid.data(), pid.size()) != static_cast<ssize_t>(pid.size())) {
    return absl::ErrnoToStatus(errno, absl::StrCat("the store ", store, ": cannot write ", file));
  }
  return fd;
}

}  // namespace mccs
