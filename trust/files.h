// Files of certificates and keys.
//
// THREAD: any. Blocks for the disk.
#ifndef MCCS_TRUST_FILES_H_
#define MCCS_TRUST_FILES_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mccs {

inline constexpr mode_t kPublicFile = 0644, kPrivateFile = 0600;

// The text of a file of certificates or keys. kNotFound, kPermissionDenied, or kInvalidArgument for
// a path or file that is empty or cannot be read: names `what` and path.
absl::StatusOr<std::string> ReadTextFile(const std::string& what, const std::string& path);

// "cannot WHAT PATH", and the reason in errno.
absl::Status FileError(const std::string& what, const std::string& path);

// Writes a file that does not exist, and waits until it is on the disk. The error names the path;
// kAlreadyExists: it exists.
absl::Status WriteNewFile(const std::string& path, const std::string& text, mode_t mode);

}  // namespace mccs

#endif  // MCCS_TRUST_FILES_H_
