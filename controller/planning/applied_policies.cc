#include "controller/planning/applied_policies.h"

#include "algorithms/algorithm_choice.h"
#include "controller/objects/cross_check.h"
#include "controller/objects/policy_selection.h"

namespace mccs {
namespace {

// A strategy holds the rules of a communicator, of its tenant and without selector.
static_assert(3 * kMaxRulesOfOne <= kMaxAlgorithmRules);

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
  return SelectRingPolicy(objects, FormatCommId(communicator.id),
                          FindTenant(objects, communicator.origin()));
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
