#include "controller/planning/applied_policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "algorithms/algorithm_choice.h"
#include "controller/objects/policy_selection.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace applied_policies_test {

using testing::ElementsAre;

std::string Spec(const std::string& algorithm, const std::string& whom) {
  return absl::StrCat("  type: algorithm\n  parameters: {algorithm: ", algorithm,
                      ", calls: [all_reduce]}\n  selector: {", whom, "}\n");
}

std::vector<std::string> NamesOf(const std::vector<const Object*>& objects) {
  std::vector<std::string> names;
  for (const Object* object : objects) names.push_back(object->key.name);
  return names;
}

const CommunicatorView kOfA = {.id = CommId(0xab), .tenant = "uid 1", .hosts = {}, .strategy = {}};

TEST(AlgorithmRules, MoreSpecificPoliciesComeFirst) {
  const ObjectSet set = After(
      {}, Together({TenantDocument("a", 1), TenantDocument("b", 2),
                    PolicyDocument("1-all", Spec("ring", "sizes: {max_bytes: 1MiB}")),
                    PolicyDocument("2-b", Spec("ring", "tenants: [b]")),
                    PolicyDocument("3-a", Spec("tree", "tenants: [a]")),
                    PolicyDocument("4-one", Spec("direct", "communicators: ['00000000000000ab']")),
                    PolicyDocument("rings", "  type: locality_ring\n")}));
  EXPECT_THAT(NamesOf(AlgorithmPolicies(set, kOfA)), ElementsAre("4-one", "3-a", "1-all"));
  CommunicatorView other = kOfA;
  other.id = CommId(7);
  other.tenant = "uid 2";
  EXPECT_THAT(NamesOf(AlgorithmPolicies(set, other)), ElementsAre("2-b", "1-all"));
}

TEST(SelectPolicy, FindsTheMostSpecificPolicy) {
  const ObjectSet set =
      After({}, Together({TenantDocument("a", 1), PolicyDocument("all", "  type: shares\n"),
                          PolicyDocument("of-a", "  type: shares\n  selector: {tenants: [a]}\n"),
                          PolicyDocument("of-one",
                                         "  type: shares\n"
                                         "  selector: {communicators: ['00000000000000ab']}\n"),
                          PolicyDocument("trees", Spec("tree", "tenants: [a]"))}));
  CommunicatorView other = kOfA;
  EXPECT_EQ(SelectPolicy(set, other)->key.name, "of-one");
  other.id = CommId(0xac);
  EXPECT_EQ(SelectPolicy(set, other)->key.name, "of-a");
  EXPECT_EQ(SelectPolicyForTenant(set, *set.Find({ObjectKind::kTenant, "a"}))->key.name, "of-a");
  other.tenant = "uid 7";
  EXPECT_EQ(SelectPolicy(set, other)->key.name, "all");
  const ObjectSet without = After({}, PolicyDocument("trees", Spec("tree", "")));
  EXPECT_EQ(SelectPolicy(without, other), nullptr);
  EXPECT_EQ(SpecOf(nullptr).type, PolicyKind::kLocalityRing);
}

TEST(AlgorithmRules, SizeRangesExcludeTheirUpperBound) {
  const ObjectSet set = After(
      {}, Together({PolicyDocument("small",
                                   Spec("tree", "sizes: {min_bytes: 1KiB, max_bytes: 1048575}")),
                    PolicyDocument("large", Spec("ring", "sizes: {min_bytes: 1MiB}"))}));
  strategy::Strategy strategy;
  PutRules(AlgorithmPolicies(set, kOfA), &strategy);
  const auto& rules = strategy.algorithms().rules();
  ASSERT_EQ(rules.size(), 2);
  EXPECT_EQ(rules[0].min_bytes(), 1u << 20);
  EXPECT_EQ(rules[0].max_bytes(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(rules[0].algorithm(), strategy::RING);
  EXPECT_EQ(rules[1].min_bytes(), 1u << 10);
  EXPECT_EQ(rules[1].max_bytes(), (1u << 20) - 1);
  EXPECT_EQ(rules[1].kind(), static_cast<uint32_t>(OpKind::kAllReduce));
}

TEST(AlgorithmRules, KeepsTheDaemonsRulesAfterThePolicies) {
  strategy::Strategy strategy;
  strategy.mutable_algorithms()->mutable_costs()->set_hop_us(7);
  for (size_t i = 0; i < kMaxAlgorithmRules; ++i)
    strategy.mutable_algorithms()->add_rules()->set_min_bytes(i);
  strategy::Strategy own = strategy;
  PutRules({}, &own);
  EXPECT_EQ(own.DebugString(), strategy.DebugString());
  const ObjectSet set = After({}, PolicyDocument("p", Spec("tree", "sizes: {max_bytes: 1MiB}")));
  PutRules(AlgorithmPolicies(set, kOfA), &strategy);
  EXPECT_EQ(strategy.algorithms().operator_rules(), 1u);
  ASSERT_EQ(strategy.algorithms().rules_size(), static_cast<int>(kMaxAlgorithmRules));
  EXPECT_EQ(strategy.algorithms().rules(0).algorithm(), strategy::TREE);
  EXPECT_EQ(strategy.algorithms().rules(1).min_bytes(), 0u);
  EXPECT_EQ(strategy.algorithms().costs().hop_us(), 7);
  PutRules(AlgorithmPolicies(set, kOfA), &strategy);
  EXPECT_EQ(strategy.algorithms().operator_rules(), 1u) << "once, however often";
  PutRules({}, &strategy);
  EXPECT_EQ(strategy.algorithms().operator_rules(), 0u);
  EXPECT_EQ(strategy.algorithms().rules_size(), static_cast<int>(kMaxAlgorithmRules) - 1);
  EXPECT_EQ(strategy.algorithms().rules(0).min_bytes(), 0u);
}

}  // namespace applied_policies_test
}  // namespace mccs
