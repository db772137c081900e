// Checks consistency between objects. Pure.
#ifndef MCCS_CONTROLLER_OBJECTS_CROSS_CHECK_H_
#define MCCS_CONTROLLER_OBJECTS_CROSS_CHECK_H_

#include <string>
#include <vector>

#include "controller/objects/object.h"

namespace mccs {

// Limit for the Policies `algorithm` of one communicator, of one tenant, or without selector: one
// strategy may hold the rules of all three (kMaxAlgorithmRules).
inline constexpr size_t kMaxRulesOfOne = 20;

// Limits for all patterns of control groups with * or {name}: each is compared with all others. The
// second one counts pairs of characters (CommonCgroup), and bounds the time to a second.
inline constexpr size_t kMaxCgroupPatterns = 256;
inline constexpr size_t kMaxComparedCharacters = 64 << 20;

struct ObjectError {
  ObjectKey object;
  std::string field;  // "spec.selector.tenants[1]"
  std::string text;   // cause and remedy

  friend bool operator==(const ObjectError&, const ObjectError&) = default;
};

// Sorted by object. Finds:
// - names of tenants, hosts or links that no object has;
// - a cap below its guarantee;
// - two tenants with the same user, socket, path of a socket or control group, or with patterns of
//   control groups that one group may match;
// - two policies for the rings, or for the same calls, with the same scope (a tenant, a
//   communicator, or no selector), and more rules than a strategy can hold;
// - a host in two topologies.
std::vector<ObjectError> CheckObjects(const ObjectSet& set);

// One line per fault: "PLACE: OBJECT, FIELD: cause and remedy".
std::string ToText(const ObjectSet& set, const std::vector<ObjectError>& faults);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_CROSS_CHECK_H_
