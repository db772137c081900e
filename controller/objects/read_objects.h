// Documents of an operator as objects. Pure: reads the text that it is given.
#ifndef MCCS_CONTROLLER_OBJECTS_READ_OBJECTS_H_
#define MCCS_CONTROLLER_OBJECTS_READ_OBJECTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/objects/object.h"

namespace mccs {

inline constexpr size_t kLongestObjectName = 63;

struct ObjectFile {
  std::string name;  // for errors
  std::string text;  // any number of documents
};

// The objects of all files, in their order, each with its origin. kInvalidArgument: one line for
// each fault, "FILE:LINE:COLUMN: what and the remedy", of all files.
absl::StatusOr<std::vector<Object>> ReadObjects(const std::vector<ObjectFile>& files);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_READ_OBJECTS_H_
