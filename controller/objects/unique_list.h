// Reads a list of unique names from a document.
#ifndef MCCS_CONTROLLER_OBJECTS_UNIQUE_LIST_H_
#define MCCS_CONTROLLER_OBJECTS_UNIQUE_LIST_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/yaml_config.h"

namespace mccs {

// In the order of the document. Finish() reports empty and duplicate names.
std::vector<std::string> ReadUniqueList(YamlReader* yaml, std::string_view key);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_UNIQUE_LIST_H_
