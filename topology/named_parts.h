// Names in a topology file: patterns of them, whether they are names at all, that each stands once,
// and that those which are referred to are there. Faults go to the reader with their place.
#ifndef MCCS_TOPOLOGY_NAMED_PARTS_H_
#define MCCS_TOPOLOGY_NAMED_PARTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/closest_word.h"
#include "base/yaml_config.h"

namespace mccs {

// The names that the pattern under `key` stands for; none, and a fault, where it is none. Letters,
// digits, '-', '_' and '.', at most 64 of them.
std::vector<std::string> ReadNames(YamlReader& entry, std::string_view key,
                                   Need need = Need::kRequired);
// Of a pattern that was read already, and stands under `key`.
std::vector<std::string> ExpandNamesOf(YamlReader& entry, std::string_view key,
                                       std::string_view pattern);

bool IsPartName(std::string_view name);
inline constexpr char kPartNameRule[] = "use letters, digits, '-', '_' and '.', at most 64";

// Of things that must not have a name in common.
class UniqueNames {
 public:
  // `rule` for texts: "racks need names of their own".
  explicit UniqueNames(std::string rule) : rule_(std::move(rule)) {}

  // Whether it is new; else a fault at `key`.
  bool Add(YamlReader& entry, std::string_view key, const std::string& name);
  std::optional<int> LineOf(const std::string& name) const;

 private:
  const std::string rule_;
  absl::flat_hash_map<std::string, int> lines_;
};

// The addresses that the pattern, read under `key`, stands for; none, and a fault, where they are
// not `count`, no numeric addresses, or not new to `known`. `of_what` for the text: "4 NICs".
std::vector<std::string> ExpandAddresses(YamlReader& entry, std::string_view key,
                                         std::string_view pattern, size_t count,
                                         std::string_view of_what, UniqueNames& known);

// "no switch 'laef0'; did you mean 'leaf0'?", or what else to do.
template <typename Parts>
std::string NotThere(std::string_view kind, std::string_view name, const Parts& parts,
                     std::string_view remedy) {
  std::vector<std::string> known;
  for (const auto& part : parts) known.push_back(part.name);
  const std::string* near = ClosestWord(name, known);
  return absl::StrCat(
      "there is no ", std::string(kind), " '", std::string(name), "'; ",
      near != nullptr ? absl::StrCat("did you mean '", *near, "'?") : std::string(remedy));
}

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_NAMED_PARTS_H_
