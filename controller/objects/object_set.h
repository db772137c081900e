// All objects at one moment. A value: whoever changes it makes another one.
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
  uint64_t revision = 0;  // grows by one with each change

  // Null: there is none.
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

// Whose processes of this origin are, by the rule that daemons go by, too (proto/tenant_who.h).
// Null: of no Tenant.
const Object* FindTenant(const ObjectSet& set, const ProcessOrigin& origin);
// That Tenant's name; where there is none, what daemons call them.
std::string TenantNameOf(const ObjectSet& set, const ProcessOrigin& origin);

// The Policy for communicator `id` (FormatCommId), whose processes are of `origin`: the one that
// names it, else the one that names its tenant, else the one that names nobody. Only those that
// `counts` accepts. Null: none.
const Object* FindPolicy(const ObjectSet& set, const ProcessOrigin& origin, std::string_view id,
                         const std::function<bool(const PolicySpec&)>& counts);
// Likewise, of processes that are `tenant`'s; null: of no Tenant. `id` may be empty: of one that no
// Policy names.
const Object* FindPolicy(const ObjectSet& set, const Object* tenant, std::string_view id,
                         const std::function<bool(const PolicySpec&)>& counts);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_OBJECTS_OBJECT_SET_H_
