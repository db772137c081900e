// `kind: Drain`: a host or a link that the operator wants to be free.
//
//   spec:
//     host: h1           # or: link: leaf0-spine1
//     reason: new cable  # for people
#ifndef MCCS_CONTROLLER_OBJECTS_DRAIN_SPEC_H_
#define MCCS_CONTROLLER_OBJECTS_DRAIN_SPEC_H_

#include <string>

#include "base/yaml_config.h"

namespace YAML {
class Emitter;
}

namespace mccs {

struct DrainSpec {
  // One of the two.
  std::string host;
  std::string link;
  std::string reason;

  friend bool operator==(const DrainSpec&, const DrainSpec&) = default;
};

inline constexpr size_t kLongestReason = 200;

// What is wrong with it is told by Finish() of `spec`'s document.
DrainSpec ReadDrainSpec(YamlReader spec);

// As a mapping that ReadDrainSpec reads as the same.
void Emit(const DrainSpec& spec, YAML::Emitter* out);

// "host h1", "link leaf0-spine1".
std::string WhatText(const DrainSpec& spec);

// What `mccsctl drain` calls the object: "host.h1"; characters that names of objects do not have
// are dots, and a hash stands for what is too long.
std::string DrainName(const DrainSpec& spec);
// The same with the hash of what is drained, whatever its length: for one whose name another Drain
// has, as "a/b.c" and "a.b/c" would have the same.
std::string HashedDrainName(const DrainSpec& spec);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_DRAIN_SPEC_H_
