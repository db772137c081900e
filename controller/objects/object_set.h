// All objects at one moment. An immutable value; a change creates a new set.
#ifndef MCCS_CONTROLLER_OBJECTS_OBJECT_SET_H_
#define MCCS_CONTROLLER_OBJECTS_OBJECT_SET_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "controller/objects/object.h"

namespace mccs {

struct ObjectSet {
  static constexpr size_t kMaxObjects = 10'000;

  std::map<ObjectKey, Object> objects;
  uint64_t revision = 0;  // incremented by each change

  // Null: not found.
  const Object* Find(const ObjectKey& key) const;
  std::vector<const Object*> OfKind(ObjectKind kind) const;
  std::vector<std::string> NamesOf(ObjectKind kind) const;
};

inline const TenantSpec& TenantOf(const Object& object) {
  return std::get<TenantSpec>(object.spec);
}
inline const PolicySpec& PolicyOf(const Object& object) {
  return std::get<PolicySpec>(object.spec);
}
inline const TopologySpec& TopologyOf(const Object& object) {
  return std::get<TopologySpec>(object.spec);
}
inline const DrainSpec& DrainOf(const Object& object) { return std::get<DrainSpec>(object.spec); }

// The Tenant of processes with this origin, by the same rule as in daemons
// (proto/tenant_selector.h). Null: none.
const Object* FindTenant(const ObjectSet& set, const ProcessOrigin& origin);
// The name of that Tenant; without one, the tenant name that daemons report.
std::string TenantNameOf(const ObjectSet& set, const ProcessOrigin& origin);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_OBJECT_SET_H_
