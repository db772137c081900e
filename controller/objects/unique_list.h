// A list of names in a document, each of which may stand there once.
#ifndef MCCS_CONTROLLER_OBJECTS_UNIQUE_LIST_H_
#define MCCS_CONTROLLER_OBJECTS_UNIQUE_LIST_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/yaml_config.h"

namespace mccs {

// In the order of the document. A name that is empty or stands there again is told by Finish().
std::vector<std::string> ReadUniqueList(YamlReader* yaml, std::string_view key);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_UNIQUE_LIST_H_
