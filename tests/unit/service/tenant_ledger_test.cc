#include "service/tenant_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/mentions.h"

namespace mccs {
namespace tenant_ledger_test {

using testing::HasSubstr;

const ProcessOrigin kUser{.tenant_name = "uid 1", .cgroup = ""};
const ProcessOrigin kOther{.tenant_name = "uid 2", .cgroup = ""};

TEST(TenantSelector, ASocketPrecedesAControlGroupAndThatAUser) {
  const TenantSelector by_socket = {.uids = {}, .sockets = {"team-a"}, .cgroups = {}};
  const TenantSelector by_group = {.uids = {}, .sockets = {}, .cgroups = {"/jobs"}};
  const TenantSelector by_inner_group = {.uids = {}, .sockets = {}, .cgroups = {"/jobs/b"}};
  const TenantSelector by_user = {.uids = {1}, .sockets = {}, .cgroups = {}};
  const ProcessOrigin at_socket = {"team-a", "/jobs/b/x"}, at_common = {"uid 1", "/jobs/b/x"};
  EXPECT_GT(MatchPrecedence(by_socket, at_socket), MatchPrecedence(by_inner_group, at_socket));
  EXPECT_GT(MatchPrecedence(by_inner_group, at_common), MatchPrecedence(by_group, at_common));
  EXPECT_GT(MatchPrecedence(by_group, at_common), MatchPrecedence(by_user, at_common));
  EXPECT_GT(MatchPrecedence(by_user, at_common), 0u);
  EXPECT_EQ(MatchPrecedence(by_socket, at_common), 0u);
  EXPECT_EQ(MatchPrecedence(by_user, at_socket), 0u)
      << "users are selected on the default socket only";
}

TEST(TenantSelector, AControlGroupIsComparedPartByPart) {
  const auto claims = [](const std::string& group, const std::string& path) {
    return MatchPrecedence({.uids = {}, .sockets = {}, .cgroups = {group}}, {"uid 1", path}) > 0;
  };
  EXPECT_TRUE(claims("/jobs/a", "/jobs/a"));
  EXPECT_TRUE(claims("/jobs/a", "/jobs/a/container/x"));
  EXPECT_TRUE(claims("/jobs/a/", "/jobs/a/x"));
  EXPECT_FALSE(claims("/jobs/a", "/jobs/ab"));
  EXPECT_FALSE(claims("/jobs/a", "/jobs"));
  EXPECT_FALSE(claims("/jobs/a", "/x/jobs/a"));
  EXPECT_TRUE(claims("/", "/jobs"));
  EXPECT_FALSE(claims("/", "")) << "unknown control group";
}

// A socket whose configured tenant is "uid 1" does not become that user's.
TEST(TenantSelector, AGroupOfItsOwnPrecedesAPatternAndThatAllOthers) {
  const TenantSelector by_pattern = {.uids = {}, .sockets = {}, .cgroups = {"/kubepods*/pod{uid}"}};
  const TenantSelector by_group = {.uids = {}, .sockets = {}, .cgroups = {"/kubepods/pod1"}};
  const TenantSelector outer = {.uids = {}, .sockets = {}, .cgroups = {"/kubepods"}};
  const TenantSelector by_user = {.uids = {7}, .sockets = {}, .cgroups = {}};
  const TenantSelector others = {.uids = {}, .sockets = {}, .cgroups = {}, .unclaimed = true};
  const ProcessOrigin origin{"uid 7", "/kubepods/pod1/container"};
  uint64_t last = 0;
  for (const auto& selector : {others, by_user, outer, by_pattern, by_group}) {
    EXPECT_GT(MatchPrecedence(selector, origin), last);
    last = MatchPrecedence(selector, origin);
  }
  EXPECT_EQ(CapturesOf(by_pattern, origin), "1");
  EXPECT_EQ(CapturesOf(by_group, origin), "");
  TenantSelector declared = by_pattern;
  declared.declared = "a";
  EXPECT_GT(MatchPrecedence(declared, {"a", origin.cgroup}), last);
  EXPECT_EQ(CapturesOf(declared, {"a", origin.cgroup}), "") << "its socket decides";
}

TEST(TenantSelector, ASocketNamedLikeAUserIsNotThatUser) {
  EXPECT_EQ(MatchPrecedence({.uids = {}, .sockets = {"uid 1"}, .cgroups = {}}, kUser), 0u);
}

class TenantLedgerTest : public testing::Test {
 protected:
  void SetQuotas(const TenantQuotas& quotas) {
    ledger_.SetTenants(
        {{.name = "a",
          .selector = {.uids = {1}, .sockets = {}, .cgroups = {"/a"}},
          .quotas = quotas},
         {.name = "b", .selector = {.uids = {2}, .sockets = {}, .cgroups = {}}, .quotas = {}}});
  }

  TenantLedger ledger_;
};

TEST_F(TenantLedgerTest, OneOriginHasOneAccount) {
  const auto first = ledger_.AccountOf(kUser);
  EXPECT_EQ(ledger_.AccountOf(kUser), first);
  EXPECT_NE(ledger_.AccountOf(kOther), first);
}

TEST_F(TenantLedgerTest, WithoutATenantOrAQuotaThereIsNoLimit) {
  const auto account = ledger_.AccountOf(kUser);
  EXPECT_EQ(account->tenant(), nullptr);
  EXPECT_TRUE(account->ReserveMemory(~uint64_t{0}).ok());
  account->ReleaseMemory(~uint64_t{0});
  SetQuotas({});
  ASSERT_NE(account->tenant(), nullptr);
  EXPECT_EQ(account->tenant()->name, "a");
  EXPECT_TRUE(account->AdmitCommunicator().ok());
}

TEST_F(TenantLedgerTest, CommunicatorsOfAllOriginsOfATenantCountTogether) {
  SetQuotas({.communicators = 2});
  const auto user = ledger_.AccountOf(kUser), group = ledger_.AccountOf({"uid 7", "/a/x"});
  const auto other = ledger_.AccountOf(kOther);
  EXPECT_TRUE(user->AdmitCommunicator().ok());
  EXPECT_TRUE(group->AdmitCommunicator().ok());
  const absl::Status rejected = user->AdmitCommunicator();
  EXPECT_TRUE(absl::IsResourceExhausted(rejected));
  EXPECT_THAT(std::string(rejected.message()),
              OneLineMentions("Tenant a", "2 communicators", "quotas.communicators is 2"));
  EXPECT_TRUE(other->AdmitCommunicator().ok());
  group->ReleaseCommunicator();
  EXPECT_TRUE(user->AdmitCommunicator().ok());
}

TEST_F(TenantLedgerTest, ThoseWithManyNamesShareLimits) {
  SetQuotas({});
  EXPECT_EQ(ledger_.AccountOf(kUser)->limit_group(), "") << "a Tenant is one name";
  const auto stranger = ledger_.AccountOf({"uid 8", ""}), other = ledger_.AccountOf({"uid 9", ""});
  EXPECT_EQ(stranger->limit_group(), "users without a Tenant");
  EXPECT_EQ(other->limit_group(), stranger->limit_group());
  EXPECT_EQ(ledger_.AccountOf({"team-b", ""})->limit_group(), "") << "the operator made its socket";
  ledger_.SetTenants({{.name = "pods",
                       .selector = {.uids = {1}, .sockets = {}, .cgroups = {"/kubepods*/pod{uid}"}},
                       .quotas = {}}});
  const auto pod = ledger_.AccountOf({"uid 0", "/kubepods/pod1"});
  EXPECT_EQ(pod->counted_as(), "pods/1");
  EXPECT_EQ(pod->limit_group(), "all of Tenant pods");
  EXPECT_EQ(ledger_.AccountOf(kUser)->limit_group(), pod->limit_group());
}

TEST_F(TenantLedgerTest, MemoryIsRejectedBeyondTheQuotaAndNoSumOverflows) {
  SetQuotas({.memory_bytes = 1000});
  const auto user = ledger_.AccountOf(kUser), group = ledger_.AccountOf({"uid 7", "/a/x"});
  EXPECT_TRUE(user->ReserveMemory(600).ok());
  for (const uint64_t bytes : {uint64_t{401}, ~uint64_t{0}}) {
    const absl::Status rejected = group->ReserveMemory(bytes);
    EXPECT_TRUE(absl::IsResourceExhausted(rejected)) << bytes;
    EXPECT_THAT(std::string(rejected.message()),
                HasSubstr("Tenant a exceeds quotas.memory on this host: 600 B are registered"));
    EXPECT_THAT(std::string(rejected.message()), HasSubstr("raise the quota"));
  }
  EXPECT_TRUE(group->ReserveMemory(400).ok());
  user->ReleaseMemory(600);
  EXPECT_TRUE(group->ReserveMemory(600).ok());
}

TEST_F(TenantLedgerTest, AnUpdateAppliesToExistingAccounts) {
  const auto user = ledger_.AccountOf(kUser);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(user->AdmitCommunicator().ok());
  SetQuotas({.communicators = 2});
  EXPECT_FALSE(user->AdmitCommunicator().ok()) << "3 exist, and remain";
  SetQuotas({.communicators = 4});
  EXPECT_TRUE(user->AdmitCommunicator().ok());
  ledger_.SetTenants({});
  EXPECT_EQ(user->tenant(), nullptr);
  EXPECT_TRUE(user->AdmitCommunicator().ok());
}

TEST_F(TenantLedgerTest, WorkBeyondTheQuotaWaitsWhileOtherWorkProgresses) {
  SetQuotas({.operations = 1});
  const auto user = ledger_.AccountOf(kUser), group = ledger_.AccountOf({"uid 7", "/a/x"});
  MonotonicNs now = 1000 * kNsPerSec;
  EXPECT_TRUE(user->MayStart(now));
  std::optional<TenantWork> first(std::in_place, user.get(), now);
  EXPECT_FALSE(group->MayStart(now));
  EXPECT_TRUE(ledger_.AccountOf(kOther)->MayStart(now));
  for (int i = 0; i < 5; ++i) {
    now += TenantAccount::kStalledAfterNs - 1;
    EXPECT_FALSE(group->MayStart(now));
    user->RecordProgress(now);
  }
  first.reset();
  EXPECT_TRUE(group->MayStart(now));
}

// It may wait for the peers of the other one.
TEST_F(TenantLedgerTest, StalledWorkAdmitsOneMoreAtATime) {
  SetQuotas({.operations = 1});
  const auto user = ledger_.AccountOf(kUser);
  MonotonicNs now = 1000 * kNsPerSec;
  const TenantWork first(user.get(), now);
  EXPECT_EQ(user->StalledAt(), now + TenantAccount::kStalledAfterNs);
  now += TenantAccount::kStalledAfterNs;
  ASSERT_TRUE(user->MayStart(now));
  const TenantWork second(user.get(), now);
  EXPECT_FALSE(user->MayStart(now));
  EXPECT_TRUE(user->MayStart(now + TenantAccount::kStalledAfterNs));
}

TEST_F(TenantLedgerTest, AnAccountMayOutliveTheLedger) {
  auto ledger = std::make_unique<TenantLedger>();
  const auto account = ledger->AccountOf(kUser);
  ASSERT_TRUE(account->ReserveMemory(5).ok());
  ledger.reset();
  account->ReleaseMemory(5);
}

}  // namespace tenant_ledger_test
}  // namespace mccs
