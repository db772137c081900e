#include "controller/objects/object_set.h"

namespace mccs {

const Object* ObjectSet::Find(const ObjectKey& key) const {
  const auto found = objects.find(key);
  return found != objects.end() ? &found->second : nullptr;
}

std::vector<const Object*> ObjectSet::OfKind(ObjectKind kind) const {
  std::vector<const Object*> found;
  for (auto at = objects.lower_bound({kind, ""}); at != objects.end() && at->first.kind == kind;
       ++at)
    found.push_back(&at->second);
  return found;
}

std::vector<std::string> ObjectSet::NamesOf(ObjectKind kind) const {
  std::vector<std::string> names;
  for (const Object* object : OfKind(kind)) names.push_back(object->key.name);
  return names;
}

const Object* FindTenant(const ObjectSet& set, const ProcessOrigin& origin) {
  const auto* found =
      FindMatch(set.objects, origin, [](const auto& entry) -> const TenantSelector* {
        return entry.first.kind == ObjectKind::kTenant ? &TenantOf(entry.second) : nullptr;
      });
  return found != nullptr ? &found->second : nullptr;
}

std::string TenantNameOf(const ObjectSet& set, const ProcessOrigin& origin) {
  const Object* tenant = FindTenant(set, origin);
  return tenant != nullptr ? tenant->key.name : origin.tenant_name;
}

}  // namespace mccs
