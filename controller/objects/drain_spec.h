// `kind: Drain`: a host or a link that takes no new work.
//
//   spec:
//     host: h1           # or: link: leaf0-spine1
//     reason: new cable  # shown to operators
#ifndef MCCS_CONTROLLER_OBJECTS_DRAIN_SPEC_H_
#define MCCS_CONTROLLER_OBJECTS_DRAIN_SPEC_H_

#include <string>

#include "base/yaml_config.h"

namespace YAML {
class Emitter;
}

namespace mccs {

struct DrainSpec {
  // Exactly one of the two is set.
  std::string host;
  std::string link;
  std::string reason;

  friend bool operator==(const DrainSpec&, const DrainSpec&) = default;
};

inline constexpr size_t kLongestReason = 200;

// Errors are reported by Finish() of `spec`'s document.
DrainSpec ReadDrainSpec(YamlReader spec);

// Writes a mapping that ReadDrainSpec reads as an equal spec.
void Emit(const DrainSpec& spec, YAML::Emitter* out);

// "host h1", "link leaf0-spine1".
std::string TargetText(const DrainSpec& spec);

// The object name that `mccsctl drain` uses: "host.h1". Characters that are not valid in object
// names become dots, and a hash replaces the end of a long name.
std::string DrainName(const DrainSpec& spec);
// The same, always with a hash: for a name that another Drain has ("a/b.c" and "a.b/c" both become
// "a.b.c").
std::string HashedDrainName(const DrainSpec& spec);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_DRAIN_SPEC_H_
