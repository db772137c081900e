#include "controller/objects/object_set.h"

#include <algorithm>

namespace mccs {
namespace {

template <typename List, typename Word>
bool Contains(const List& list, const Word& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

const Object* ObjectSet::Find(const ObjectKey& key) const {
  const auto found = objects.find(key);
  return found != objects.end() ? &found->second : nullptr;
}

std::vector<const Object*> ObjectSet::OfKind(ObjectKind kind) const {
  std::vector<const Object*> found;
  for (const auto& [key, object] : objects) {
    if (key.kind == kind) found.push_back(&object);
  }
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

const Object* FindPolicy(const ObjectSet& set, const ProcessOrigin& origin, std::string_view id,
                         const std::function<bool(const PolicySpec&)>& counts) {
  return FindPolicy(set, FindTenant(set, origin), id, counts);
}

const Object* FindPolicy(const ObjectSet& set, const Object* tenant, std::string_view id,
                         const std::function<bool(const PolicySpec&)>& counts) {
  const Object* for_tenant = nullptr;
  const Object* for_others = nullptr;
  for (const Object* object : set.OfKind(ObjectKind::kPolicy)) {
    const PolicySpec& policy = PolicyOf(*object);
    if (!counts(policy)) continue;
    if (Contains(policy.communicators, id)) return object;
    if (tenant != nullptr && Contains(policy.tenants, tenant->key.name)) for_tenant = object;
    if (policy.tenants.empty() && policy.communicators.empty()) for_others = object;
  }
  return for_tenant != nullptr ? for_tenant : for_others;
}

}  // namespace mccs
