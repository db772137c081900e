#include "controller/objects/unique_list.h"

#include <set>

#include "absl/strings/str_cat.h"

namespace mccs {

std::vector<std::string> ReadUniqueList(YamlReader* yaml, std::string_view key) {
  std::vector<std::string> names;
  yaml->Field(key, &names);
  std::set<std::string> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) {
      yaml->RefuseItem(key, i, "empty name; write a name, or remove the item");
    } else if (!seen.insert(names[i]).second) {
      yaml->RefuseItem(key, i, absl::StrCat("'", names[i], "' is a duplicate; remove it"));
    }
  }
  return names;
}

}  // namespace mccs
