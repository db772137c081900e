// What is wrong between objects. Pure.
#ifndef MCCS_CONTROLLER_OBJECTS_CROSS_CHECK_H_
#define MCCS_CONTROLLER_OBJECTS_CROSS_CHECK_H_

#include <string>
#include <vector>

#include "controller/objects/object_set.h"

namespace mccs {

// Of policies `algorithm` for one communicator, one tenant, or all others: those of all three go
// into one strategy (kMaxAlgorithmRules).
inline constexpr size_t kMaxRulesOfOne = 20;

struct Fault {
  ObjectKey object;
  std::string field;  // "spec.for.tenants[1]"
  std::string text;   // what and the remedy

  friend bool operator==(const Fault&, const Fault&) = default;
};

// In the order of the objects: names of tenants, hosts and links that no object of the set has; a
// cap below its guarantee; two tenants that are the same user, socket or control group; two
// policies for the rings, or for the same calls, of one tenant, of one communicator, or of all
// others, and more rules for calls than a strategy bears; a host that stands in two topologies.
std::vector<Fault> CheckObjects(const ObjectSet& set);

// One line for each fault: "PLACE: OBJECT, FIELD: what and the remedy".
std::string ToText(const ObjectSet& set, const std::vector<Fault>& faults);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_CROSS_CHECK_H_
