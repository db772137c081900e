#include "controller/objects/policy_selection.h"

#include <algorithm>

namespace mccs {
namespace {

bool HasName(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<const Object*> PoliciesFor(const ObjectSet& objects, PolicyDecision what,
                                       const std::string& id, const Object* tenant) {
  std::vector<const Object*> all, for_tenant, for_others;
  for (const Object* object : objects.OfKind(ObjectKind::kPolicy)) {
    const PolicySpec& policy = PolicyOf(*object);
    if (!policy.Decides(what)) continue;
    if (HasName(policy.communicators, id)) {
      all.push_back(object);
    } else if (tenant != nullptr && HasName(policy.tenants, tenant->key.name)) {
      for_tenant.push_back(object);
    } else if (policy.communicators.empty() && policy.tenants.empty()) {
      for_others.push_back(object);
    }
  }
  all.insert(all.end(), for_tenant.begin(), for_tenant.end());
  all.insert(all.end(), for_others.begin(), for_others.end());
  return all;
}

const Object* SelectRingPolicy(const ObjectSet& objects, const std::string& id,
                               const Object* tenant) {
  const std::vector<const Object*> policies =
      PoliciesFor(objects, PolicyDecision::kRings, id, tenant);
  return policies.empty() ? nullptr : policies.front();
}

const Object* SelectPolicyForTenant(const ObjectSet& objects, const Object& tenant) {
  return SelectRingPolicy(objects, /*id=*/"", &tenant);
}

}  // namespace mccs
