// A lab's folder and who holds it. The supervisor keeps a lock on the folder for as long as one of
// its processes lives; a folder that nobody holds is what a killed lab left, and goes with the next
// command.
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

// Where labs live: `parent`/mccs-lab-<uid>-<name>.
class LabDirectories {
 public:
  explicit LabDirectories(std::string parent) : parent_(std::move(parent)) {}

  // REQUIRES: a valid name.
  LabPaths PathsOf(std::string_view name) const;

  // Makes the folder and holds it; the lock lasts until all copies of the descriptor (fork makes
  // some) are closed. kAlreadyExists: a lab of that name is up.
  absl::StatusOr<UniqueFd> CreateAndHold(std::string_view name) const;

  // Whether a supervisor holds it. What nobody holds is removed on the way.
  absl::StatusOr<bool> IsHeld(std::string_view name) const;

  // Of all labs of this user that are held. Removes the others.
  std::vector<std::string> HeldNames() const;

 private:
  std::string Prefix() const;

  std::string parent_;
};

// Removes a lab's folder and everything in it; that it is gone already is fine.
absl::Status RemoveLabFolder(const LabPaths& paths);

}  // namespace mccs::lab

#endif  // MCCS_LAB_LAB_DIRECTORY_H_
