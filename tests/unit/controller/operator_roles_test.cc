#include "controller/state/operator_roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/objects/read_objects.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace operator_roles_test {

using testing::AllOf;
using testing::HasSubstr;

// `selector` and `parameters` in flow style.
std::string Policy(const std::string& name, const std::string& type, const std::string& selector,
                   const std::string& parameters = "") {
  return absl::StrCat(PolicyDocument(name, absl::StrCat("  type: ", type, "\n")),
                      selector.empty() ? "" : absl::StrCat("  selector: {", selector, "}\n"),
                      parameters.empty() ? "" : absl::StrCat("  parameters: {", parameters, "}\n"));
}
std::string Ring(const std::string& name, const std::string& selector) {
  return Policy(name, "locality_ring", selector);
}

class OperatorRolesTest : public testing::Test {
 protected:
  OperatorRolesTest() {
    stored_ = Plan(absl::StrCat(TenantDocument("team-a", 1), "---\n", TenantDocument("team-b", 2),
                                "---\n", Ring("of-b", "tenants: [team-b]")))
                  .next;
  }

  PlannedChange Plan(const std::string& text) const {
    absl::StatusOr<std::vector<Object>> objects = ReadObjects({{"a.yaml", text}});
    EXPECT_TRUE(objects.ok()) << objects.status();
    absl::StatusOr<PlannedChange> planned = PlanApply(stored_, *std::move(objects));
    EXPECT_TRUE(planned.ok()) << planned.status();
    return *std::move(planned);
  }
  // Empty: it may.
  std::string WhyNot(const OperatorRole& caller, const std::string& text) const {
    return std::string(CheckMayChange(caller, stored_, Plan(text)).message());
  }

  const OperatorRole alice_{"alice", Role::kTenantAdmin, {"team-a"}};
  ObjectSet stored_;
};

TEST_F(OperatorRolesTest, AnAdminChangesEverything) {
  EXPECT_EQ(WhyNot(FirstOperator(), Ring("all", "")), "");
}

TEST_F(OperatorRolesTest, AViewerChangesNothing) {
  EXPECT_THAT(WhyNot({"eve", Role::kViewer, {}}, Ring("all", "")),
              AllOf(HasSubstr("operator eve is viewer"), HasSubstr("only an admin may"),
                    HasSubstr("`operators`")));
}

TEST_F(OperatorRolesTest, ATenantsAdminHasThePoliciesOfItsTenants) {
  EXPECT_EQ(WhyNot(alice_, Ring("own", "tenants: [team-a]")), "");
}

TEST_F(OperatorRolesTest, ATenantsAdminTouchesNobodyElse) {
  EXPECT_THAT(WhyNot({"alice", Role::kTenantAdmin, {"team-b"}}, Ring("own", "tenants: [team-a]")),
              AllOf(HasSubstr("alice is tenant-admin of team-b"), HasSubstr("Policy 'own'"),
                    HasSubstr("applies to tenant team-a")));
  EXPECT_THAT(WhyNot(alice_, Ring("all", "")), HasSubstr("names no tenants"));
  EXPECT_THAT(WhyNot(alice_, Ring("of-b", "tenants: [team-a]")),
              HasSubstr("applies to tenant team-b"))
      << "takes over another tenant's";
  EXPECT_THAT(WhyNot(alice_, TenantDocument("team-a", 1, "  weight: 9\n")),
              HasSubstr("it is not a Policy"));
}

TEST_F(OperatorRolesTest, ATenantsAdminReservesNoLinks) {
  PlannedChange change =
      Plan(Policy("own", "priority_flow", "tenants: [team-a]", "favoured: [team-a]"));
  const ObjectKey key{ObjectKind::kPolicy, "own"};
  ASSERT_TRUE(CheckMayChange(alice_, stored_, change).ok());
  auto& policy = std::get<PolicySpec>(change.next.objects.at(key).spec);
  policy.parameters.reserved_links = {"leaf0-spine1"};
  EXPECT_THAT(std::string(CheckMayChange(alice_, stored_, change).message()),
              HasSubstr("reserves links"));
}

// They protect other tenants' guarantees.
TEST_F(OperatorRolesTest, ATenantsAdminTakesNoLimitOffItsTenants) {
  stored_ = Plan(Policy("limits", "shares", "")).next;
  EXPECT_THAT(
      WhyNot(alice_, Policy("own", "fair_flow", "tenants: [team-a]")),
      AllOf(HasSubstr("alice is tenant-admin of team-a"), HasSubstr("Policy 'own' needs an admin"),
            HasSubstr("rates or send windows of tenant team-a"),
            HasSubstr("Policy 'limits' (shares)"), HasSubstr("Policy 'own' (fair_flow)")));
  EXPECT_THAT(WhyNot(alice_, Policy("own", "shares", "tenants: [team-a]", "channels_per_nic: 2")),
              HasSubstr("Policy 'limits' (shares)"));
  EXPECT_EQ(WhyNot(FirstOperator(), Policy("own", "fair_flow", "tenants: [team-a]")), "");
  EXPECT_EQ(WhyNot(alice_, Policy("own", "algorithm", "tenants: [team-a]", "algorithm: ring")), "")
      << "it applies in addition";
}

TEST_F(OperatorRolesTest, ATenantsAdminDeletesOrChangesNoSendWindows) {
  const std::string windows =
      Policy("windows", "time_windows", "tenants: [team-a]", "favoured: [team-b]");
  EXPECT_THAT(WhyNot(alice_, windows), HasSubstr("from no Policy to Policy 'windows'"));
  stored_ = Plan(windows).next;
  const absl::StatusOr<PlannedChange> deletion =
      PlanDelete(stored_, {{ObjectKind::kPolicy, "windows"}});
  ASSERT_TRUE(deletion.ok()) << deletion.status();
  const absl::Status denied = CheckMayChange(alice_, stored_, *deletion);
  EXPECT_TRUE(absl::IsPermissionDenied(denied)) << denied;
  EXPECT_THAT(denied.message(), HasSubstr("from Policy 'windows' (time_windows) to no Policy"));
  EXPECT_THAT(
      WhyNot(alice_, Policy("windows", "time_windows", "tenants: [team-a]", "favoured: [team-a]")),
      HasSubstr("send windows of tenant team-a"));
  EXPECT_THAT(WhyNot(alice_, Ring("windows", "tenants: [team-a]")),
              HasSubstr("send windows of tenant team-a"));
  EXPECT_EQ(WhyNot(alice_, windows), "") << "unchanged";
}

TEST_F(OperatorRolesTest, LimitsOfOtherTenantsDoNotBindATenantsAdmin) {
  stored_ = Plan(Policy("of-b", "time_windows", "tenants: [team-b]", "favoured: [team-a]")).next;
  EXPECT_EQ(WhyNot(alice_, Ring("own", "tenants: [team-a]")), "");
}

TEST_F(OperatorRolesTest, AnUnchangedObjectOfOthersIsNoChange) {
  EXPECT_EQ(WhyNot(alice_, Ring("of-b", "tenants: [team-b]")), "");
}

}  // namespace operator_roles_test
}  // namespace mccs
