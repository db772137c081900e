#include "controller/objects/change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/mentions.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace change_test {

using testing::HasSubstr;

std::string RejectedApply(const ObjectSet& stored, const std::string& text, absl::StatusCode code) {
  const absl::StatusOr<PlannedChange> plan = PlanApply(stored, Read(text));
  EXPECT_EQ(plan.status().code(), code) << plan.status();
  return std::string(plan.status().message());
}

const ObjectKey kTenantA{ObjectKind::kTenant, "a"};

TEST(Apply, ReportsTheChangeOfEachObject) {
  const ObjectSet stored = After({}, Together({TenantDocument("a", 1), TenantDocument("b", 2)}));
  EXPECT_EQ(stored.revision, 1u);
  const auto plan = PlanApply(stored, Read(Together({TenantDocument("c", 3), TenantDocument("b", 2),
                                                     TenantDocument("a", 1, "  weight: 2\n")})));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->changes.size(), 3u);
  EXPECT_EQ(plan->changes[0].kind, ChangeKind::kCreated);
  EXPECT_EQ(plan->changes[0].before, "");
  EXPECT_EQ(plan->changes[1].kind, ChangeKind::kUnchanged);
  EXPECT_EQ(plan->changes[2].kind, ChangeKind::kChanged);
  EXPECT_THAT(plan->changes[2].before, HasSubstr("weight: 1\n"));
  EXPECT_THAT(plan->changes[2].after, HasSubstr("weight: 2\n"));
  EXPECT_EQ(plan->next.revision, 2u);
  EXPECT_EQ(plan->next.Find({ObjectKind::kTenant, "b"})->version, 1u);
  EXPECT_EQ(plan->next.Find(kTenantA)->version, 2u);
}

TEST(Apply, EqualObjectsChangeNothing) {
  const std::string text = Together(
      {TenantDocument("a", 1), TopologyDocument("t"), PolicyDocument("p", "  type: shares\n")});
  const ObjectSet stored = After({}, text);
  // The same values, written differently.
  const auto plan = PlanApply(stored, Read(text + "---\n" + ""));
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->IsNothing());
  EXPECT_EQ(plan->next.revision, 1u);
  EXPECT_TRUE(PlanApply(stored, Read(TenantDocument("a", 1, "  weight: 1.0\n")))->IsNothing());
}

TEST(Apply, RejectsAnOldVersionWithObjectFieldAndLine) {
  ObjectSet stored = After({}, TenantDocument("a", 1));
  stored = After(stored, TenantDocument("a", 1, "  weight: 2\n"));
  EXPECT_THAT(RejectedApply(stored, Document("Tenant", "a", "  selector: {uids: [1]}\n", 1),
                            absl::StatusCode::kAborted),
              OneLineMentions("a.yaml:5:20", "Tenant 'a'", "metadata.resourceVersion", "version 1",
                              "version is 2"));
  EXPECT_THAT(RejectedApply(stored, Document("Tenant", "a", "  selector: {uids: [1]}\n", 9),
                            absl::StatusCode::kAborted),
              HasSubstr("version 9 does not exist: the stored version is 2"));
  EXPECT_THAT(RejectedApply(stored, Document("Tenant", "b", "  selector: {uids: [2]}\n", 1),
                            absl::StatusCode::kAborted),
              HasSubstr("version 1 is not stored, and the object does not exist"));
  EXPECT_EQ(After(stored, Document("Tenant", "a", "  selector: {uids: [3]}\n", 2)).revision, 3u);
}

TEST(Apply, OneErrorRejectsTheWholeChange) {
  const ObjectSet stored = After({}, TenantDocument("a", 1));
  RejectedApply(stored,
                Together({TenantDocument("b", 2),
                          PolicyDocument("p", "  type: shares\n  selector: {tenants: [x]}\n")}),
                absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(RejectedApply(stored, Together({TenantDocument("b", 2), TenantDocument("b", 3)}),
                            absl::StatusCode::kInvalidArgument),
              Mentions("a.yaml:12:9", "Tenant 'b'", "duplicate", "a.yaml:5:9"));
}

TEST(Apply, ChecksAgainstStoredObjectsAndDropsOrigins) {
  const ObjectSet stored = After({}, TenantDocument("a", 1));
  EXPECT_FALSE(stored.Find(kTenantA)->origin.has_value());
  const ObjectSet next =
      After(stored, PolicyDocument("p", "  type: shares\n  selector: {tenants: [a]}\n"));
  EXPECT_EQ(next.objects.size(), 2u);
  EXPECT_THAT(RejectedApply(stored, TenantDocument("b", 1), absl::StatusCode::kFailedPrecondition),
              HasSubstr("uid 1 already belongs to Tenant 'a' (stored, version 1)"));
}

TEST(Delete, DeletesObjectsTogether) {
  const ObjectSet stored =
      After({}, Together({TenantDocument("a", 1),
                          PolicyDocument("p", "  type: shares\n  selector: {tenants: [a]}\n")}));
  const auto alone = PlanDelete(stored, {kTenantA});
  EXPECT_EQ(alone.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(alone.status().message(),
              Mentions("Policy 'p' (stored, version 1)", "spec.selector.tenants[0]"));
  const auto both = PlanDelete(stored, {kTenantA, {ObjectKind::kPolicy, "p"}, kTenantA});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_TRUE(both->next.objects.empty());
  EXPECT_EQ(both->next.revision, 2u);
  EXPECT_EQ(both->changes.size(), 2u);
}

TEST(Delete, SuggestsANameForAnUnknownObject) {
  const ObjectSet stored = After({}, TenantDocument("team-a", 1));
  const auto plan = PlanDelete(stored, {{ObjectKind::kTenant, "team-b"}});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(plan.status().message(), "unknown Tenant 'team-b'; did you mean 'team-a'?");
}

TEST(Delete, ByFileChecksTheVersion) {
  const ObjectSet stored = After({}, TenantDocument("a", 1));
  EXPECT_EQ(KeysToDelete(stored, Read(Document("Tenant", "a", "  selector: {uids: [1]}\n", 4)))
                .status()
                .code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(KeysToDelete(stored, Read(TenantDocument("a", 1)))->size(), 1u);
}

TEST(Find, FindsATenantByUserSocketOrControlGroup) {
  const ObjectSet set = After(
      {}, Together({Document("Tenant", "a",
                             "  selector: {uids: [1000], sockets: [team-a], cgroups: [/jobs/a]}\n"),
                    Document("Tenant", "b", "  selector: {cgroups: [/jobs/a/b]}\n")}));
  EXPECT_EQ(FindTenant(set, {"uid 1000", ""})->key, kTenantA);
  EXPECT_EQ(FindTenant(set, {"team-a", ""})->key, kTenantA);
  EXPECT_EQ(FindTenant(set, {"uid 100", ""}), nullptr);
  EXPECT_EQ(FindTenant(set, {"uid 100", "/jobs/a/x"})->key, kTenantA);
  EXPECT_EQ(FindTenant(set, {"uid 1000", "/jobs/a/b/x"})->key.name, "b");
}

}  // namespace change_test
}  // namespace mccs
