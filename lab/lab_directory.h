// A lab's directory and its lock. The supervisor and the launcher hold the lock while they run. An
// unlocked directory is left from a killed lab; the next command removes it.
#ifndef MCCS_LAB_LAB_DIRECTORY_H_
#define MCCS_LAB_LAB_DIRECTORY_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "lab/lab_state.h"

namespace mccs::lab {

inline constexpr size_t kMaxNameChars = 32;

// Lower-case letters, digits, '-' and '_'; at most kMaxNameChars.
absl::Status ValidateLabName(std::string_view name);
absl::Status ValidateTenantName(std::string_view name);

// Directories of labs: `parent`/mccs-lab-<uid>-<name>.
class LabDirectories {
 public:
  explicit LabDirectories(std::string parent) : parent_(std::move(parent)) {}

  // REQUIRES: a valid name.
  LabPaths PathsOf(std::string_view name) const;

  // Creates the directory and locks it. The lock lasts until all copies of the descriptor (fork
  // makes some) are closed. kAlreadyExists: a lab of that name is running.
  absl::StatusOr<UniqueFd> CreateAndLock(std::string_view name) const;

  // Whether a supervisor holds the lock. Removes the directory if nobody holds it.
  absl::StatusOr<bool> IsLocked(std::string_view name) const;

  // Names of this user's running labs. Removes unlocked directories.
  std::vector<std::string> RunningNames() const;

 private:
  std::string Prefix() const;

  std::string parent_;
};

// Removes a lab's directory recursively. OK if it does not exist.
absl::Status RemoveLabDirectory(const LabPaths& paths);

}  // namespace mccs::lab

#endif  // MCCS_LAB_LAB_DIRECTORY_H_
