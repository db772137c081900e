// Limits of a YAML text, checked before anything is built from it. yaml-cpp reads any text and calls
// itself for each level, so that a text of some megabytes could use up the stack or the memory.
#ifndef MCCS_BASE_YAML_LIMITS_H_
#define MCCS_BASE_YAML_LIMITS_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace mccs {

inline constexpr size_t kMaxYamlValues = 200'000;  // of a text, counting each use of an alias
inline constexpr size_t kMaxYamlDepth = 32;        // of lists and mappings, also through aliases
inline constexpr size_t kMaxYamlKeyBytes = 1024;

// kInvalidArgument: `text` is malformed or exceeds a limit; has the position. `name`: of the file.
absl::Status CheckYaml(const std::string& text, const std::string& name);

}  // namespace mccs

#endif  // MCCS_BASE_YAML_LIMITS_H_
