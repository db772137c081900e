// Parses operators' documents into objects. Pure.
#ifndef MCCS_CONTROLLER_OBJECTS_READ_OBJECTS_H_
#define MCCS_CONTROLLER_OBJECTS_READ_OBJECTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/yaml_config.h"
#include "controller/objects/object.h"

namespace mccs {

inline constexpr size_t kLongestObjectName = 63;

struct ObjectFile {
  std::string name;  // for error messages
  std::string text;  // any number of YAML documents
};

// The objects of all files, in order, with origins. kInvalidArgument: one line per error in any of
// the files, "FILE:LINE:COLUMN: cause and remedy"; or the files exceed kMaxObjectTextBytes.
absl::StatusOr<std::vector<Object>> ReadObjects(const std::vector<ObjectFile>& files);

// All fields of the documents of one kind.
std::vector<YamlKey> ObjectFields(ObjectKind kind);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_READ_OBJECTS_H_
