#include "lab/lab_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs::lab {
namespace {

// Retries if another process removes the directory between open and lock.
constexpr int kMaxAttempts = 100;

struct LockedDirectory {
  UniqueFd lock;
  bool is_ours = false;  // false: another process holds the lock
};

// Opens the directory and tries to lock it. Empty: it does not exist. kPermissionDenied: another
// user owns it (/tmp is shared).
absl::StatusOr<std::optional<LockedDirectory>> TryLock(const LabPaths& paths) {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    UniqueFd directory(open(paths.root.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory.valid() && errno == ENOENT) return std::optional<LockedDirectory>();
    struct stat opened {};
    if (!directory.valid() || fstat(directory.get(), &opened) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", paths.root));
    }
    if (opened.st_uid != getuid()) {
      return absl::PermissionDeniedError(
          absl::StrCat("cannot use ", paths.root, ": another user owns it; remove it"));
    }
    bool locked = flock(directory.get(), LOCK_EX | LOCK_NB) == 0;
    struct stat named {};
    bool still_there = lstat(paths.root.c_str(), &named) == 0 && named.st_ino == opened.st_ino;
    if (still_there) return LockedDirectory{std::move(directory), locked};
  }
  return absl::AbortedError(
      absl::StrCat("cannot lock ", paths.root, ": other processes keep replacing it; try again"));
}

absl::Status ValidateName(std::string_view name, std::string_view whose) {
  const bool known_letters = std::all_of(name.begin(), name.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-' ||
           letter == '_';
  });
  if (!name.empty() && name.size() <= kMaxNameChars && known_letters) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "invalid name '", std::string(name), "' for ", std::string(whose), ": expected at most ",
      kMaxNameChars, " lower-case letters, digits, '-' and '_'"));
}

}  // namespace

absl::Status ValidateLabName(std::string_view name) { return ValidateName(name, "a lab"); }
absl::Status ValidateTenantName(std::string_view name) { return ValidateName(name, "a tenant"); }

std::string LabDirectories::Prefix() const { return absl::StrCat("mccs-lab-", getuid(), "-"); }

LabPaths LabDirectories::PathsOf(std::string_view name) const {
  return LabPaths{absl::StrCat(parent_, "/", Prefix(), std::string(name))};
}

absl::StatusOr<UniqueFd> LabDirectories::CreateAndLock(std::string_view name) const {
  LabPaths paths = PathsOf(name);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    MCCS_ASSIGN_OR_RETURN(bool held, IsLocked(name));
    if (held) {
      return absl::AlreadyExistsError(absl::StrCat(
          "lab '", std::string(name), "' is already running; stop it with 'mccs-lab down --name ",
          std::string(name), "' or choose another --name"));
    }
    if (mkdir(paths.root.c_str(), 0700) != 0) {
      if (errno == EEXIST) continue;
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", paths.root));
    }
    MCCS_ASSIGN_OR_RETURN(std::optional<LockedDirectory> ours, TryLock(paths));
    if (ours && ours->is_ours) return std::move(ours->lock);
  }
  return absl::AbortedError(
      absl::StrCat("cannot create ", paths.root, ": other processes keep replacing it; try again"));
}

absl::StatusOr<bool> LabDirectories::IsLocked(std::string_view name) const {
  LabPaths paths = PathsOf(name);
  MCCS_ASSIGN_OR_RETURN(std::optional<LockedDirectory> holder, TryLock(paths));
  if (!holder) return false;
  if (!holder->is_ours) return true;
  MCCS_RETURN_IF_ERROR(RemoveLabDirectory(paths));
  return false;
}

std::vector<std::string> LabDirectories::RunningNames() const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent_, ignored)) {
    std::string directory = entry.path().filename();
    if (directory.rfind(Prefix(), 0) != 0) continue;
    std::string name = directory.substr(Prefix().size());
    if (!ValidateLabName(name).ok()) continue;
    absl::StatusOr<bool> held = IsLocked(name);
    if (held.ok() && *held) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveLabDirectory(const LabPaths& paths) {
  std::error_code error;
  std::filesystem::remove_all(paths.root, error);
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot remove ", paths.root));
  return absl::OkStatus();
}

}  // namespace mccs::lab
