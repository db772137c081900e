// Files of certificates and keys.
#ifndef MCCS_TRUST_READ_FILE_H_
#define MCCS_TRUST_READ_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace mccs {

// The text of a file of certificates or keys. kNotFound, kPermissionDenied, or kInvalidArgument for
// a path or file that is empty or cannot be read: names `what` and path. Blocks for the disk.
absl::StatusOr<std::string> ReadTextFile(const std::string& what, const std::string& path);

}  // namespace mccs

#endif  // MCCS_TRUST_READ_FILE_H_
