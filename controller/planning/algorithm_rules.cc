#include "controller/planning/algorithm_rules.h"

#include <algorithm>
#include <limits>

#include "algorithms/algorithm_choice.h"
#include "controller/objects/cross_check.h"

namespace mccs {
namespace {

// A strategy holds the rules of a communicator, of its tenant and without selector.
static_assert(3 * kMaxRulesOfOne <= kMaxAlgorithmRules);

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
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

std::vector<const Object*> AlgorithmPolicies(const ObjectSet& objects,
                                             const CommunicatorView& communicator) {
  const std::string id = FormatCommId(communicator.id);
  const Object* tenant = FindTenant(objects, communicator.origin());
  std::vector<const Object*> by_level[3];
  for (const Object* object : objects.OfKind(ObjectKind::kPolicy)) {
    const PolicySpec& policy = PolicyOf(*object);
    if (!policy.Decides(PolicyDecision::kAlgorithms)) continue;
    if (Contains(policy.communicators, id)) {
      by_level[0].push_back(object);
    } else if (tenant != nullptr && Contains(policy.tenants, tenant->key.name)) {
      by_level[1].push_back(object);
    } else if (policy.communicators.empty() && policy.tenants.empty()) {
      by_level[2].push_back(object);
    }
  }
  std::vector<const Object*> all;
  for (const auto& level : by_level) all.insert(all.end(), level.begin(), level.end());
  return all;
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
