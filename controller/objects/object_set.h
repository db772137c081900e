// All objects at one moment. An immutable value; a change creates a new set.
#ifndef MCCS_CONTROLLER_OBJECTS_OBJECT_SET_H_
#define MCCS_CONTROLLER_OBJECTS_OBJECT_SET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
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

// The Policy for communicator `id` (FormatCommId), whose processes have `origin`: the one that
// selects it, else the one that selects its tenant, else the one without a selector. Considers only
// Policies that `counts` accepts. Null: none.
const Object* FindPolicy(const ObjectSet& set, const ProcessOrigin& origin, std::string_view id,
                         const std::function<bool(const PolicySpec&)>& counts);
// Likewise, for processes of `tenant`; null: of no Tenant. `id` empty: a communicator that no
// Policy selects.
const Object* FindPolicy(const ObjectSet& set, const Object* tenant, std::string_view id,
                         const std::function<bool(const PolicySpec&)>& counts);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_OBJECT_SET_H_
