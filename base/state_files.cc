#include "base/state_files.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace mccs {

absl::StatusOr<StateFiles> StateFiles::Write(
    const std::string& state_dir, const std::vector<std::pair<std::string, std::string>>& files) {
  std::error_code error;
  std::filesystem::create_directories(state_dir, error);
  if (error) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot make the state directory ", state_dir, ": ", error.message()));
  }
  StateFiles written;
  for (const auto& [name, text] : files) {
    const std::string path = absl::StrCat(state_dir, "/", name);
    const std::string draft = absl::StrCat(path, ".", getpid());
    std::ofstream out(draft, std::ios::trunc);
    out << text;
    out.close();
    if (out) std::filesystem::rename(draft, path, error);
    if (!out || error) {
      std::filesystem::remove(draft, error);
      return absl::PermissionDeniedError(
          absl::StrCat("cannot write ", path, ": is the directory writable, and is there space?"));
    }
    written.paths_.push_back(path);
  }
  return written;
}

StateFiles::~StateFiles() {
  for (const std::string& path : paths_) unlink(path.c_str());
}

}  // namespace mccs
