#include "controller/objects/cross_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/units.h"
#include "tests/unit/mentions.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace cross_check_test {

using testing::HasSubstr;

// The objects of `text` as if applied to an empty set, even with faults.
ObjectSet SetOf(const std::string& text) {
  ObjectSet set;
  for (Object& object : Read(text)) set.objects[object.key] = std::move(object);
  return set;
}

std::string FaultsOf(const std::vector<std::string>& documents) {
  const ObjectSet set = SetOf(Together(documents));
  return ToText(set, CheckObjects(set));
}

std::string AlgorithmSpec(const std::string& algorithm, const std::string& whom,
                          const std::string& more = "") {
  return absl::StrCat("  type: algorithm\n  parameters: {algorithm: ", algorithm, more, "}\n",
                      "  selector: {", whom, "}\n");
}

TEST(CrossCheck, AcceptsConsistentObjects) {
  EXPECT_EQ(
      FaultsOf({
          TenantDocument("a", 1, "  guarantee: 1Gbit/s\n  cap: 1Gbit/s\n"),
          TenantDocument("b", 2),
          TopologyDocument("t"),
          TopologyDocument("u", "g[0-1]"),
          PolicyDocument("all", "  type: locality_ring\n  parameters: {order: [h1, g0]}\n"),
          PolicyDocument("a",
                         "  type: priority_flow\n"
                         "  parameters: {favoured: [b], reserved_links: "
                         "[h0/nic0-leaf0]}\n  selector: {tenants: [a, b]}\n"),
          PolicyDocument("small",
                         AlgorithmSpec("tree", "tenants: [b], sizes: {max_bytes: 1048575}")),
          PolicyDocument("large", AlgorithmSpec("ring", "tenants: [b], sizes: {min_bytes: 1MiB}")),
          PolicyDocument("any", AlgorithmSpec("direct", "sizes: {max_bytes: 1MiB}")),
          PolicyDocument("one",
                         "  type: shares\n"
                         "  selector: {communicators: ['00000000000000ab']}\n"),
      }),
      "");
}

TEST(CrossCheck, RejectsACapBelowTheGuarantee) {
  EXPECT_THAT(
      FaultsOf({TenantDocument("a", 1, "  cap: 5Gbit/s\n  guarantee: 10Gbit/s\n")}),
      OneLineMentions("a.yaml:8:8", "Tenant 'a'", "spec.cap", "5 G", "10 G", "a.yaml:9:14"));
}

TEST(CrossCheck, RejectsAnUnknownTenant) {
  EXPECT_THAT(FaultsOf({TenantDocument("team-a", 1), TenantDocument("ops", 2),
                        PolicyDocument("p",
                                       "  type: shares\n  selector:\n    tenants:\n      - ops\n"
                                       "      - team-b\n")}),
              OneLineMentions("a.yaml:25:9", "Policy 'p'", "spec.selector.tenants[1]",
                              "Tenant 'team-b'", "'team-a'"));
  EXPECT_THAT(FaultsOf({PolicyDocument("p",
                                       "  type: time_windows\n"
                                       "  parameters: {favoured: [x]}\n")}),
              Mentions("a.yaml:8:27", "Policy 'p'", "spec.parameters.favoured[0]", "Tenant 'x'"));
}

TEST(CrossCheck, RejectsAnUnknownHost) {
  EXPECT_THAT(
      FaultsOf({TopologyDocument("t"), PolicyDocument("p",
                                                      "  type: locality_ring\n"
                                                      "  parameters: {order: [h0, h7]}\n")}),
      OneLineMentions("a.yaml:21:28", "Policy 'p'", "spec.parameters.order[1]", "host 'h7'", "h0",
                      "h1"));
}

TEST(CrossCheck, SuggestsALinkOfTwoTopologiesOnce) {
  const std::string one = TwoSpinesDocument("a0", "b0");
  const std::string other = absl::StrReplaceAll(TwoSpinesDocument("c0", "d0"), {{"fabric", "t2"}});
  EXPECT_THAT(
      FaultsOf({one, other,
                PolicyDocument("p", "  type: fair_flow\n  parameters: {avoid_links: [wan]}\n")}),
      HasSubstr("(known: a0/nic0-leaf0, b0/nic0-leaf1, c0/nic0-leaf0, d0/nic0-leaf1, "
                "leaf0-spine0, leaf0-spine1, leaf1-spine0, leaf1-spine1)"));
}

TEST(CrossCheck, RejectsAnUnknownLink) {
  EXPECT_THAT(FaultsOf({TopologyDocument("t"),
                        PolicyDocument("p",
                                       "  type: fair_flow\n"
                                       "  parameters: {avoid_links: [h0/nic1-leaf0]}\n")}),
              Mentions("Policy 'p'", "spec.parameters.avoid_links[0]", "link 'h0/nic1-leaf0'",
                       "'h0/nic0-leaf0'"));
  EXPECT_THAT(FaultsOf({TenantDocument("a", 1),
                        PolicyDocument("p",
                                       "  type: priority_flow\n"
                                       "  parameters: {favoured: [a], reserved_links: [l]}\n")}),
              Mentions("spec.parameters.reserved_links[0]", "link 'l'"));
}

TEST(CrossCheck, RejectsPatternsOfTwoTenantsThatOneGroupMatches) {
  const auto selects = [](const std::string& name, const std::string& pattern) {
    return Document("Tenant", name, absl::StrCat("  selector: {cgroups: ['", pattern, "']}\n"));
  };
  EXPECT_THAT(FaultsOf({selects("a", "/kubepods*/pod{uid}"), selects("b", "/kubepods/*/pod7{x}")}),
              OneLineMentions("Tenant 'b'", "spec.selector.cgroups[0]", "/kubepods/*/pod7{x}",
                              "/kubepods*/pod{uid}", "Tenant 'a'", "both match /kubepods/",
                              "exactly one tenant"));
  // A path precedes a pattern, and the inner one the outer; one tenant may have both.
  EXPECT_EQ(FaultsOf({selects("a", "/kubepods*/pod{uid}"), selects("b", "/kubepods/pod7"),
                      selects("c", "/slurm*/job_{job}"), selects("d", "/kubepods")}),
            "");
  EXPECT_EQ(FaultsOf({selects("a", "/x/*', '/x/{y}")}), "");
}

TEST(CrossCheck, RejectsASocketPathOfTwoTenants) {
  const auto declares = [](const std::string& name, const std::string& path) {
    return Document("Tenant", name, absl::StrCat("  sockets: [{path: ", path, "}]\n"));
  };
  EXPECT_EQ(FaultsOf({declares("a", "a.sock"), declares("b", "b.sock")}), "");
  EXPECT_THAT(FaultsOf({declares("a", "x.sock"), declares("b", "x.sock")}),
              OneLineMentions("Tenant 'b'", "spec.sockets[0].path", "'x.sock' is in use by",
                              "Tenant 'a'", "choose another path"));
  // Daemons identify processes at declared sockets by the name of their Tenant.
  EXPECT_THAT(
      FaultsOf({declares("a", "a.sock"), Document("Tenant", "b", "  selector: {sockets: [a]}\n")}),
      OneLineMentions("Tenant 'b'", "spec.selector.sockets[0]", "Tenant 'a'"));
  EXPECT_EQ(
      FaultsOf({Document("Tenant", "a", "  sockets: [{path: x}]\n  selector: {sockets: [a]}\n")}),
      "");
}

TEST(CrossCheck, RejectsTwoPoliciesForOneTenant) {
  EXPECT_THAT(FaultsOf({TenantDocument("a", 1),
                        PolicyDocument("p", "  type: shares\n  selector: {tenants: [a]}\n"),
                        PolicyDocument("q", "  type: fair_flow\n  selector: {tenants: [a]}\n")}),
              OneLineMentions("a.yaml:23:24", "Policy 'q'", "spec.selector.tenants[0]", "duplicate",
                              "Tenant 'a'", "Policy 'p'", "a.yaml:15:24"));
}

TEST(CrossCheck, ReportsTheAppliedObjectNotTheStoredOne) {
  const std::string all = "  type: shares\n";
  const ObjectSet stored = After(ObjectSet(), PolicyDocument("z", all));
  const auto plan = PlanApply(stored, Read(PolicyDocument("a", all)));
  EXPECT_THAT(plan.status().message(), Mentions("a.yaml:6:3", "Policy 'a'", "spec.selector",
                                                "duplicate", "Policy 'z' (stored"));
}

TEST(CrossCheck, RejectsTwoAlgorithmsForTheSameCalls) {
  const std::string small = AlgorithmSpec("tree", "tenants: [a], sizes: {max_bytes: 2MiB}");
  EXPECT_THAT(FaultsOf({TenantDocument("a", 1), PolicyDocument("p", small),
                        PolicyDocument(
                            "q", AlgorithmSpec("ring", "tenants: [a], sizes: {min_bytes: 1MiB}"))}),
              OneLineMentions("a.yaml:25:24", "Policy 'q'", "spec.selector.tenants[0]",
                              "overlapping", "all_reduce", "Tenant 'a'", "Policy 'p'",
                              "a.yaml:16:24", "2 MiB", "1 MiB", "`sizes`"));
  // Allowed: other sizes, other calls, another tenant, and policies for rings.
  EXPECT_EQ(
      FaultsOf(
          {TenantDocument("a", 1), TenantDocument("b", 2), PolicyDocument("p", small),
           PolicyDocument("q", AlgorithmSpec("ring", "tenants: [a], sizes: {min_bytes: 2097153}")),
           PolicyDocument("r", AlgorithmSpec("ring", "tenants: [b], sizes: {max_bytes: 3MiB}",
                                             ", calls: [broadcast]")),
           PolicyDocument("s", AlgorithmSpec("tree", "tenants: [b]", ", calls: [reduce]")),
           PolicyDocument("t", "  type: fair_flow\n  selector: {tenants: [a, b]}\n")}),
      "");
}

TEST(CrossCheck, RejectsMoreRulesThanAStrategyHolds) {
  std::vector<std::string> documents = {TenantDocument("a", 1)};
  const auto range = [](size_t i) {
    return absl::StrCat("tenants: [a], sizes: {min_bytes: ", i * kMiB,
                        ", max_bytes: ", (i + 1) * kMiB - 1, "}");
  };
  for (size_t i = 0; i < kMaxRulesOfOne; ++i)
    documents.push_back(PolicyDocument(absl::StrCat("p", i),
                                       AlgorithmSpec("direct", range(i), ", calls: [all_reduce]")));
  EXPECT_EQ(FaultsOf(documents), "");
  documents.push_back(PolicyDocument("q", AlgorithmSpec("direct", range(99))));
  EXPECT_THAT(FaultsOf(documents), HasSubstr("more than 20 rules for Tenant 'a'"));
}

TEST(CrossCheck, RejectsTwoPoliciesWithTheSameSelector) {
  const std::string one = "  type: shares\n  selector: {communicators: ['00000000000000ab']}\n";
  EXPECT_THAT(FaultsOf({PolicyDocument("p", one), PolicyDocument("q", one)}),
              Mentions("Policy 'q'", "spec.selector.communicators[0]", "duplicate",
                       "communicator 00000000000000ab", "Policy 'p'", "a.yaml:8:30"));
  EXPECT_THAT(FaultsOf({PolicyDocument("p", "  type: shares\n"),
                        PolicyDocument("q", "  type: locality_ring\n")}),
              Mentions("Policy 'q'", "spec.selector:", "duplicate"));
}

TEST(CrossCheck, RejectsTwoTenantsWithTheSameUser) {
  EXPECT_THAT(
      FaultsOf({TenantDocument("a", 1), Document("Tenant", "b", "  selector: {uids: [7, 1]}\n")}),
      OneLineMentions("a.yaml:14:24", "Tenant 'b'", "spec.selector.uids[1]", "uid 1", "Tenant 'a'",
                      "a.yaml:7:21"));
}

// Tenants t0, t1, …, each with one of the patterns.
ObjectSet WithPatterns(const std::vector<std::string>& patterns) {
  ObjectSet set;
  for (const std::string& pattern : patterns) {
    TenantSpec tenant;
    tenant.cgroups = {pattern};
    Object object;
    object.key = {ObjectKind::kTenant, absl::StrCat("t", set.objects.size())};
    object.spec = std::move(tenant);
    set.objects[object.key] = std::move(object);
  }
  return set;
}

// They differ only in the middle, so that the comparison of two takes the most.
TEST(CrossCheck, BoundsTheComparisonOfPatterns) {
  std::vector<std::string> patterns;
  for (size_t i = 0; i < kMaxCgroupPatterns; ++i)
    patterns.push_back(absl::StrCat("/*", std::string(110, 'x'), 100 + i, "/{x}"));
  const std::vector<ObjectError> faults = CheckObjects(WithPatterns(patterns));
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_THAT(faults[0].text, Mentions("too similar", "begin or end"));
}

TEST(CrossCheck, AcceptsAsManyPatternsAsAreAllowed) {
  std::vector<std::string> patterns;
  for (size_t i = 0; i < kMaxCgroupPatterns; ++i)
    patterns.push_back(absl::StrCat("/kubepods*/", std::string(90, 'x'), "/tenant", 1000 + i));
  EXPECT_THAT(CheckObjects(WithPatterns(patterns)), testing::IsEmpty());
}

// A similar name is searched among all; only the first faults are shown.
TEST(CrossCheck, OnlyShownFaultsHaveSuggestions) {
  std::vector<std::string> links;
  for (int i = 0; i < 1000; ++i) links.push_back(absl::StrCat("leaf0-spine", i));
  const ObjectSet set =
      SetOf(Together({TopologyDocument("t"),
                      PolicyDocument("p", "  type: fair_flow\n  parameters: {avoid_links: [" +
                                              absl::StrJoin(links, ", ") + "]}\n")}));
  const std::vector<ObjectError> faults = CheckObjects(set);
  ASSERT_GT(faults.size(), 900u);
  EXPECT_THAT(faults.front().text, testing::ContainsRegex("did you mean|known|none exist"));
  EXPECT_THAT(faults.back().text, testing::Not(testing::ContainsRegex("did you mean|known:")));
  EXPECT_THAT(faults.back().text, Mentions("unknown link 'leaf0-spine999'", "correct the name"));
  EXPECT_THAT(ToText(set, faults), HasSubstr(absl::StrCat("(", faults.size() - 20, " more)")));
}

TEST(CrossCheck, RejectsAHostInTwoTopologies) {
  EXPECT_THAT(FaultsOf({TopologyDocument("t"), TopologyDocument("u", "h[1-2]")}),
              Mentions("Topology 'u'", "spec.hosts", "host 'h1'", "Topology 't'", "a.yaml:10:5"));
}

TEST(CrossCheck, NamesStoredObjectsByVersion) {
  ObjectSet set = SetOf(PolicyDocument("p", "  type: shares\n  selector: {tenants: [a]}\n"));
  for (auto& [key, object] : set.objects) {
    object.origin.reset();
    object.version = 12;
  }
  EXPECT_THAT(
      ToText(set, CheckObjects(set)),
      Mentions("stored, version 12: Policy 'p'", "spec.selector.tenants[0]", "unknown Tenant"));
}

}  // namespace cross_check_test
}  // namespace mccs
