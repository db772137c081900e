// One controller per store: a lock beside the store's file that ends with its process.
#ifndef MCCS_CONTROLLER_STORE_STORE_LOCK_H_
#define MCCS_CONTROLLER_STORE_STORE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs {

// Locks `store`.lock, beside the file that symbolic links lead to. It stays when the lock ends; the
// lock ends with the descriptor.
// kAlreadyExists: another process has it; it is named. kFailedPrecondition: the store has hard
// links. kPermissionDenied, kNotFound and the like: the file cannot be written, or not be locked.
absl::StatusOr<UniqueFd> LockStore(const std::string& store);

// Why the lock in `file` was not to be had, by the errno of flock().
absl::Status WhyNotLocked(int error, const std::string& store, const std::string& file);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STORE_STORE_LOCK_H_
