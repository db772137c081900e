#include "service/tenant_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mccs {
namespace tenant_ledger_test {

using testing::HasSubstr;

const ProcessOrigin kUser{.called = "uid 1", .cgroup = ""};
const ProcessOrigin kOther{.called = "uid 2", .cgroup = ""};

TEST(TenantWho, ASocketGoesBeforeAControlGroupAndThatBeforeAUser) {
  const TenantWho by_socket = {.uids = {}, .sockets = {"team-a"}, .cgroups = {}};
  const TenantWho by_group = {.uids = {}, .sockets = {}, .cgroups = {"/jobs"}};
  const TenantWho by_inner_group = {.uids = {}, .sockets = {}, .cgroups = {"/jobs/b"}};
  const TenantWho by_user = {.uids = {1}, .sockets = {}, .cgroups = {}};
  const ProcessOrigin at_socket = {"team-a", "/jobs/b/x"}, at_common = {"uid 1", "/jobs/b/x"};
  EXPECT_GT(ClaimOf(by_socket, at_socket), ClaimOf(by_inner_group, at_socket));
  EXPECT_GT(ClaimOf(by_inner_group, at_common), ClaimOf(by_group, at_common));
  EXPECT_GT(ClaimOf(by_group, at_common), ClaimOf(by_user, at_common));
  EXPECT_GT(ClaimOf(by_user, at_common), 0u);
  EXPECT_EQ(ClaimOf(by_socket, at_common), 0u);
  EXPECT_EQ(ClaimOf(by_user, at_socket), 0u) << "users are selected on the common socket only";
}

TEST(TenantWho, AControlGroupIsComparedPartByPart) {
  const auto claims = [](const std::string& group, const std::string& path) {
    return ClaimOf({.uids = {}, .sockets = {}, .cgroups = {group}}, {"uid 1", path}) > 0;
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
TEST(TenantWho, AUserIsNoSocketThatIsCalledLikeOne) {
  EXPECT_EQ(ClaimOf({.uids = {}, .sockets = {"uid 1"}, .cgroups = {}}, kUser), 0u);
}

class TenantLedgerTest : public testing::Test {
 protected:
  void SetQuotas(const TenantQuotas& quotas) {
    ledger_.SetTenants(
        {{.name = "a", .who = {.uids = {1}, .sockets = {}, .cgroups = {"/a"}}, .quotas = quotas},
         {.name = "b", .who = {.uids = {2}, .sockets = {}, .cgroups = {}}, .quotas = {}}});
  }

  TenantLedger ledger_;
};

TEST_F(TenantLedgerTest, OneOriginHasOneAccountWhileSomebodyHoldsIt) {
  const auto first = ledger_.AccountOf(kUser);
  EXPECT_EQ(ledger_.AccountOf(kUser), first);
  EXPECT_NE(ledger_.AccountOf(kOther), first);
  EXPECT_EQ(ledger_.accounts(), 1u);
}

TEST_F(TenantLedgerTest, WithoutATenantOrAQuotaThereIsNoLimit) {
  const auto account = ledger_.AccountOf(kUser);
  EXPECT_EQ(account->tenant(), nullptr);
  EXPECT_TRUE(account->TakeMemory(~uint64_t{0}).ok());
  account->GiveMemory(~uint64_t{0});
  SetQuotas({});
  ASSERT_NE(account->tenant(), nullptr);
  EXPECT_EQ(account->tenant()->name, "a");
  EXPECT_TRUE(account->TakeCommunicator().ok());
}

TEST_F(TenantLedgerTest, CommunicatorsOfAllOriginsOfATenantCountTogether) {
  SetQuotas({.communicators = 2});
  const auto user = ledger_.AccountOf(kUser), group = ledger_.AccountOf({"uid 7", "/a/x"});
  const auto other = ledger_.AccountOf(kOther);
  EXPECT_TRUE(user->TakeCommunicator().ok());
  EXPECT_TRUE(group->TakeCommunicator().ok());
  const absl::Status refused = user->TakeCommunicator();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(std::string(refused.message()),
            "Tenant a has 2 communicators on this host, and its quota is 2: destroy some that are "
            "not needed, or have the operator raise quotas.communicators of the Tenant");
  EXPECT_TRUE(other->TakeCommunicator().ok());
  group->GiveCommunicator();
  EXPECT_TRUE(user->TakeCommunicator().ok());
}

TEST_F(TenantLedgerTest, MemoryIsRefusedBeyondTheQuotaAndNoSumOverflows) {
  SetQuotas({.memory_bytes = 1000});
  const auto user = ledger_.AccountOf(kUser), group = ledger_.AccountOf({"uid 7", "/a/x"});
  EXPECT_TRUE(user->TakeMemory(600).ok());
  for (const uint64_t bytes : {uint64_t{401}, ~uint64_t{0}}) {
    const absl::Status refused = group->TakeMemory(bytes);
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << bytes;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("Tenant a has buffers of 600 B with mccsd on this host"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("raise quotas.memory"));
  }
  EXPECT_TRUE(group->TakeMemory(400).ok());
  user->GiveMemory(600);
  EXPECT_TRUE(group->TakeMemory(600).ok());
}

TEST_F(TenantLedgerTest, TheControllersNewWordCountsForWhatIsThereAlready) {
  const auto user = ledger_.AccountOf(kUser);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(user->TakeCommunicator().ok());
  SetQuotas({.communicators = 2});
  EXPECT_FALSE(user->TakeCommunicator().ok()) << "3 exist, and remain";
  SetQuotas({.communicators = 4});
  EXPECT_TRUE(user->TakeCommunicator().ok());
  ledger_.SetTenants({});
  EXPECT_EQ(user->tenant(), nullptr);
  EXPECT_TRUE(user->TakeCommunicator().ok());
}

TEST_F(TenantLedgerTest, WorkBeyondTheQuotaWaitsWhileWhatIsAtWorkGetsOn) {
  SetQuotas({.operations = 1});
  const auto user = ledger_.AccountOf(kUser), group = ledger_.AccountOf({"uid 7", "/a/x"});
  MonotonicNs now = 1000 * kNsPerSec;
  EXPECT_TRUE(user->MayWork(now));
  std::optional<TenantWork> first(std::in_place, user.get(), now);
  EXPECT_FALSE(group->MayWork(now));
  EXPECT_TRUE(ledger_.AccountOf(kOther)->MayWork(now));
  for (int i = 0; i < 5; ++i) {
    now += TenantAccount::kStandstillNs - 1;
    EXPECT_FALSE(group->MayWork(now));
    user->Moved(now);
  }
  first.reset();
  EXPECT_TRUE(group->MayWork(now));
}

// It may wait for the peers of the other one.
TEST_F(TenantLedgerTest, WhatStandsStillMakesRoomForOneMoreAtATime) {
  SetQuotas({.operations = 1});
  const auto user = ledger_.AccountOf(kUser);
  MonotonicNs now = 1000 * kNsPerSec;
  const TenantWork first(user.get(), now);
  EXPECT_EQ(user->StandsStillAt(), now + TenantAccount::kStandstillNs);
  now += TenantAccount::kStandstillNs;
  ASSERT_TRUE(user->MayWork(now));
  const TenantWork second(user.get(), now);
  EXPECT_FALSE(user->MayWork(now));
  EXPECT_TRUE(user->MayWork(now + TenantAccount::kStandstillNs));
}

TEST_F(TenantLedgerTest, AnAccountMayOutliveTheLedger) {
  auto ledger = std::make_unique<TenantLedger>();
  const auto account = ledger->AccountOf(kUser);
  ASSERT_TRUE(account->TakeMemory(5).ok());
  ledger.reset();
  account->GiveMemory(5);
}

}  // namespace tenant_ledger_test
}  // namespace mccs
