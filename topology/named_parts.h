// Names in a topology file: expands patterns, checks characters and uniqueness, and resolves
// references. The reader collects errors with their place.
#ifndef MCCS_TOPOLOGY_NAMED_PARTS_H_
#define MCCS_TOPOLOGY_NAMED_PARTS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/closest_word.h"
#include "base/yaml_config.h"

namespace mccs {

// Patterns are short forms of many names, as cluster tools write them:
//
//   h[1-4]          h1 h2 h3 h4
//   h[08-11]        h08 h09 h10 h11
//   r[0-1]-h[0,2]   r0-h0 r0-h2 r1-h0 r1-h2
//   spine0,leaf[0-1]  spine0 leaf0 leaf1
inline constexpr size_t kMaxNamesOfPattern = 65'536;

// All names of a pattern, in the order written; with several brackets, the last one varies fastest.
// Does not check the characters of names.
// kInvalidArgument: an unmatched or nested bracket, an empty name or range, a descending range, or
// more than kMaxNamesOfPattern names; the message says which.
absl::StatusOr<std::vector<std::string>> ExpandNames(std::string_view pattern);

// The names in the pattern under `key`; empty, with an error, if it is invalid. Names have letters,
// digits, '-', '_' and '.', at most 64 characters.
std::vector<std::string> ReadNames(YamlReader& entry, std::string_view key,
                                   Need need = Need::kRequired);
// The same for a pattern that was already read under `key`.
std::vector<std::string> ExpandNamesOf(YamlReader& entry, std::string_view key,
                                       std::string_view pattern);

bool IsPartName(std::string_view name);
inline constexpr char kPartNameRule[] = "expected letters, digits, '-', '_' and '.', at most 64";

// A set of names that must be unique.
class UniqueNames {
 public:
  // `rule`: for error messages, "rack names must be unique".
  explicit UniqueNames(std::string rule) : rule_(std::move(rule)) {}

  // False: `name` is not new; reports an error at `key`.
  bool Add(YamlReader& entry, std::string_view key, const std::string& name);
  std::optional<int> LineOf(const std::string& name) const;

 private:
  const std::string rule_;
  absl::flat_hash_map<std::string, int> lines_;
};

// The addresses in the pattern, read under `key`. Empty, with an error, if they are not `count`
// numeric addresses or not new to `known`. `of_what`: for error messages, "4 NICs".
std::vector<std::string> ExpandAddresses(YamlReader& entry, std::string_view key,
                                         std::string_view pattern, size_t count,
                                         std::string_view of_what, UniqueNames& known);

// "unknown switch 'laef0'; did you mean 'leaf0'?", or `remedy`.
template <typename Parts>
std::string UnknownName(std::string_view kind, std::string_view name, const Parts& parts,
                        std::string_view remedy) {
  std::vector<std::string> known;
  for (const auto& part : parts) known.push_back(part.name);
  return absl::StrCat("unknown ", std::string(kind), " '", std::string(name), "'",
                      Suggestion(name, known, remedy));
}

}  // namespace mccs

#endif  // MCCS_TOPOLOGY_NAMED_PARTS_H_
