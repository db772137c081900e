#include "service/state_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {

absl::StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::Claim(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  const std::string pid_file = absl::StrCat(path, "/pid");
  UniqueFd fd(open(pid_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", pid_file));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::AlreadyExistsError(absl::StrCat("another mccsd runs with state_dir ", path));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd.get(), 0) != 0 ||
      write(fd.get(), pid.data(), pid.size()) != static_cast<ssize_t>(pid.size())) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", pid_file));
  }
  return std::unique_ptr<StateDirectory>(new StateDirectory(path, std::move(fd)));
}

StateDirectory::~StateDirectory() {
  unlink(absl::StrCat(path_, "/endpoint").c_str());
  unlink(absl::StrCat(path_, "/pid").c_str());
}

absl::Status StateDirectory::Publish(const Endpoint& endpoint) const {
  const std::string target = absl::StrCat(path_, "/endpoint");
  std::ofstream file(target + ".new");
  file << ToString(endpoint) << "\n";
  file.close();
  // Renamed when whole: readers never see half a line.
  if (!file || std::rename((target + ".new").c_str(), target.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", target));
  }
  return absl::OkStatus();
}

}  // namespace mccs
