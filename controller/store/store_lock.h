// One controller per store: a lock file beside the store's file, released when the process ends.
#ifndef MCCS_CONTROLLER_STORE_STORE_LOCK_H_
#define MCCS_CONTROLLER_STORE_STORE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace mccs {

// Locks `store`.lock, next to the file that symbolic links resolve to. The lock ends with the
// descriptor; the lock file stays. kAlreadyExists: another process holds the lock; the message
// names it. kFailedPrecondition: the store has hard links. kPermissionDenied, kNotFound and others:
// the file cannot be written or locked.
absl::StatusOr<UniqueFd> LockStore(const std::string& store);

// The error for a failed flock() of `file` with this errno.
absl::Status LockError(int error, const std::string& store, const std::string& file);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STORE_STORE_LOCK_H_
