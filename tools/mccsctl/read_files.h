// The operator's files, for commands that take -f.
#ifndef MCCS_TOOLS_MCCSCTL_READ_FILES_H_
#define MCCS_TOOLS_MCCSCTL_READ_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/operator.pb.h"

namespace mccs {

// What one call may carry, over all files.
inline constexpr size_t kMaxFileBytes = 3 << 20;

// Each of `paths` is a file, a folder (its *.yaml, *.yml and *.json, by name, without folders in
// it), or "-" for standard input. kNotFound, kPermissionDenied and the like, with the path.
// kResourceExhausted: more than kMaxFileBytes.
absl::StatusOr<std::vector<control::ObjectFile>> ReadFiles(const std::vector<std::string>& paths);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_READ_FILES_H_
