#include "controller/planning/applied_policies.h"

#include <algorithm>
#include <string>

#include "algorithms/algorithm_choice.h"
#include "controller/objects/cross_check.h"

namespace mccs {
namespace {

// A strategy holds the rules of a communicator, of its tenant and without selector.
static_assert(3 * kMaxRulesOfOne <= kMaxAlgorithmRules);

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Those that decide `what` for communicator `id` (FormatCommId) of `tenant`, the most specific
// first; each group by name. `id` empty: a communicator that none selects. `tenant` null: none.
std::vector<const Object*> PoliciesFor(const ObjectSet& objects, PolicyDecision what,
                                       const std::string& id, const Object* tenant) {
  std::vector<const Object*> all, for_tenant, for_others;
  for (const Object* object : objects.OfKind(ObjectKind::kPolicy)) {
    const PolicySpec& policy = PolicyOf(*object);
    if (!policy.Decides(what)) continue;
    if (Contains(policy.communicators, id)) {
      all.push_back(object);
    } else if (tenant != nullptr && Contains(policy.tenants, tenant->key.name)) {
      for_tenant.push_back(object);
    } else if (policy.communicators.empty() && policy.tenants.empty()) {
      for_others.push_back(object);
    }
  }
  all.insert(all.end(), for_tenant.begin(), for_tenant.end());
  all.insert(all.end(), for_others.begin(), for_others.end());
  return all;
}

const Object* MostSpecific(const std::vector<const Object*>& policies) {
  return policies.empty() ? nullptr : policies.front();
}

void AddRules(const PolicySpec& policy, strategy::AlgorithmChoice* choice) {
  for (const OpKind kind : KindsOf(policy)) {
    strategy::AlgorithmRule* rule = choice->add_rules();
    rule->set_kind(static_cast<uint32_t>(kind));
    rule->set_algorithm(static_cast<strategy::Algorithm>(*policy.parameters.algorithm));
    rule->set_min_bytes(policy.sizes.min_bytes);
    rule->set_max_bytes(policy.sizes.max_bytes);
  }
}

}  // namespace

const Object* SelectPolicy(const ObjectSet& objects, const CommunicatorView& communicator) {
  return MostSpecific(PoliciesFor(objects, PolicyDecision::kRings, FormatCommId(communicator.id),
                                  FindTenant(objects, communicator.origin())));
}

const Object* SelectPolicyForTenant(const ObjectSet& objects, const Object& tenant) {
  return MostSpecific(PoliciesFor(objects, PolicyDecision::kRings, /*id=*/"", &tenant));
}

const PolicySpec& SpecOf(const Object* policy) {
  static const PolicySpec& without = *new PolicySpec;
  return policy != nullptr ? PolicyOf(*policy) : without;
}

std::vector<const Object*> AlgorithmPolicies(const ObjectSet& objects,
                                             const CommunicatorView& communicator) {
  return PoliciesFor(objects, PolicyDecision::kAlgorithms, FormatCommId(communicator.id),
                     FindTenant(objects, communicator.origin()));
}

void PutRules(const std::vector<const Object*>& policies, strategy::Strategy* strategy) {
  if (policies.empty() && strategy->algorithms().operator_rules() == 0) return;
  const strategy::AlgorithmChoice before = strategy->algorithms();
  strategy::AlgorithmChoice* choice = strategy->mutable_algorithms();
  choice->clear_rules();
  for (const Object* policy : policies) AddRules(PolicyOf(*policy), choice);
  choice->set_operator_rules(static_cast<uint32_t>(choice->rules_size()));
  for (int i = static_cast<int>(before.operator_rules()); i < before.rules_size(); ++i) {
    if (choice->rules_size() < static_cast<int>(kMaxAlgorithmRules))
      *choice->add_rules() = before.rules(i);
  }
}

}  // namespace mccs
