// Reads the files of the option -f.
#ifndef MCCS_TOOLS_MCCSCTL_READ_FILES_H_
#define MCCS_TOOLS_MCCSCTL_READ_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/operator.pb.h"

namespace mccs {

// Each of `paths` is a file, a directory (its *.yaml, *.yml and *.json files in order of name, not
// recursive), or "-" for standard input. kNotFound, kPermissionDenied and the like, with the path.
// kResourceExhausted: more than kMaxObjectTextBytes in total.
absl::StatusOr<std::vector<control::v1::ObjectFile>> ReadFiles(
    const std::vector<std::string>& paths);

}  // namespace mccs

#endif  // MCCS_TOOLS_MCCSCTL_READ_FILES_H_
