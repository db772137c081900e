#include "base/yaml_keys.h"

#include <set>
#include <string>

namespace mccs {

void PrintKeys(std::string_view format, const std::vector<YamlKey>& keys, std::ostream* out) {
  std::set<std::string> printed;
  for (const YamlKey& key : keys) {
    if (!printed.insert(key.path).second) continue;
    *out << format << '\t' << key.path << '\t' << key.type << '\t'
         << (key.required ? "required" : "optional") << '\t' << key.default_value << '\n';
  }
}

}  // namespace mccs
