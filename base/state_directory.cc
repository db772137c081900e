#include "base/state_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// A predecessor that is stopping may delete its pid file after this program has opened it.
constexpr int kClaimTries = 10;

bool StillThere(const UniqueFd& fd, const std::string& file) {
  struct stat held, named;
  return fstat(fd.get(), &held) == 0 && stat(file.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

// Opens and locks the pid file; verifies that it still has its name.
absl::StatusOr<UniqueFd> Lock(const std::string& file, const std::string& owner) {
  for (int i = 0; i < kClaimTries; ++i) {
    UniqueFd fd(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", file));
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) break;
    if (StillThere(fd, file)) return fd;
  }
  return absl::AlreadyExistsError(owner);
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::Claim(const std::string& path,
                                                                      const std::string& program) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot create the state directory ", path, ": ", error.message()));
  }
  const std::string file = absl::StrCat(path, "/pid");
  MCCS_ASSIGN_OR_RETURN(UniqueFd fd,
                        Lock(file, absl::StrCat("another ", program, " uses state_dir ", path)));
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd.get(), 0) != 0 ||
      write(fd.get(), pid.data(), pid.size()) != static_cast<ssize_t>(pid.size())) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", file));
  }
  return std::unique_ptr<StateDirectory>(new StateDirectory(path, std::move(fd)));
}

StateDirectory::~StateDirectory() {
  for (const char* name : {"/endpoint", "/metrics", "/pid"}) {
    unlink(absl::StrCat(path_, name).c_str());
  }
}

absl::Status StateDirectory::Write(const std::string& name, const std::string& line) const {
  const std::string target = absl::StrCat(path_, "/", name);
  const std::string draft = absl::StrCat(target, ".", getpid());
  std::ofstream file(draft, std::ios::trunc);
  file << line << "\n";
  file.close();
  if (file && std::rename(draft.c_str(), target.c_str()) == 0) return absl::OkStatus();
  unlink(draft.c_str());
  return absl::PermissionDeniedError(absl::StrCat(
      "cannot write ", target,
      "; check that this user may write to the directory, and that the disk has space"));
}

}  // namespace mccs
