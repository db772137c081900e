// Prints the keys of a YAML format, for the reference documentation.
#ifndef MCCS_BASE_YAML_KEYS_H_
#define MCCS_BASE_YAML_KEYS_H_

#include <ostream>
#include <string_view>
#include <vector>

#include "base/yaml_config.h"

namespace mccs {

// One line per key, without duplicates: FORMAT, path, type, "required" or "optional", default,
// separated by tabs.
void PrintKeys(std::string_view format, const std::vector<YamlKey>& keys, std::ostream* out);

}  // namespace mccs

#endif  // MCCS_BASE_YAML_KEYS_H_
