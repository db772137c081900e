// A daemon's counters, written by one thread and read by another at the same time.
#include "service/counters.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace counters_test {

constexpr auto kAllReduce = static_cast<size_t>(OpKind::kAllReduce);

TEST(Counters, ATenantKeepsItsEntry) {
  DaemonCounters counters;
  const auto a = counters.Of("a");
  a->work[kAllReduce].operations.Add(3);
  EXPECT_EQ(counters.Of("a"), a);
  EXPECT_NE(counters.Of("b"), a);
  EXPECT_EQ(counters.Tenants().at("a")->work[kAllReduce].operations.value(), 3u);
}

TEST(Counters, AFloodOfNamesSharesOneEntry) {
  DaemonCounters counters;
  for (size_t i = 0; i < 2 * DaemonCounters::kMaxTenants; ++i) {
    counters.Of(absl::StrCat("tenant ", i))->sent.bytes.Add(1);
  }
  const auto tenants = counters.Tenants();
  EXPECT_EQ(tenants.size(), DaemonCounters::kMaxTenants + 1);
  EXPECT_EQ(tenants.at(DaemonCounters::kOtherTenants)->sent.bytes.value(),
            DaemonCounters::kMaxTenants);
  EXPECT_EQ(tenants.at("tenant 0")->sent.bytes.value(), 1u);
}

// A Tenant object selects a running process, and then no longer does.
TEST(Counters, CountersKeepTheirNameAndGaugesMove) {
  DaemonCounters counters;
  const ProcessOrigin claimed{"uid 0", "/jobs/a"}, free{"uid 0", ""};
  const auto a = counters.Of(claimed, "uid 0"), b = counters.Of(free, "uid 0");
  const auto count = [&](uint64_t bytes) {
    a->sent.bytes.Add(bytes);
    b->sent.bytes.Add(1);
  };
  const auto bytes = [&](const std::string& name) {
    return counters.Tenants().at(name)->sent.bytes.value();
  };
  const GaugeShare first(a->sessions), second(b->sessions);
  a->EnterEpoch(7);
  count(100);
  counters.Rename([&](const ProcessOrigin& origin) {
    return origin == claimed ? std::string("team-a") : origin.tenant_name;
  });
  EXPECT_EQ(bytes("uid 0"), 101u);
  EXPECT_EQ(bytes("team-a"), 0u);
  count(30);
  EXPECT_EQ(bytes("uid 0"), 102u);
  EXPECT_EQ(bytes("team-a"), 30u);
  EXPECT_EQ(counters.Tenants().at("uid 0")->sessions.value(), 1);
  EXPECT_EQ(counters.Tenants().at("team-a")->sessions.value(), 1);
  EXPECT_EQ(counters.Tenants().at("team-a")->highest_epoch.value(), 7);
  EXPECT_EQ(counters.Tenants().at("uid 0")->highest_epoch.value(), 0);
  counters.Rename([](const ProcessOrigin& origin) { return origin.tenant_name; });
  count(5);
  EXPECT_EQ(bytes("uid 0"), 108u);
  EXPECT_EQ(bytes("team-a"), 30u) << "a sum never decreases";
}

TEST(Counters, SumsIncludeEndedOrigins) {
  DaemonCounters counters;
  for (int i = 0; i < 3; ++i) {
    counters.Of({"uid 0", absl::StrCat("/jobs/", i)}, "team-a")->sent.bytes.Add(10);
  }
  EXPECT_EQ(counters.Tenants().size(), 1u);
  EXPECT_EQ(counters.Tenants().at("team-a")->sent.bytes.value(), 30u);
}

TEST(Counters, AShareOfAGaugeMovesAndLeaves) {
  Gauge first, second;
  {
    GaugeShare share(first);
    EXPECT_EQ(first.value(), 1);
    share = GaugeShare(second);
    EXPECT_EQ(first.value(), 0);
    EXPECT_EQ(second.value(), 1);
    const GaugeShare moved(std::move(share));
    EXPECT_EQ(second.value(), 1);
  }
  EXPECT_EQ(second.value(), 0);
}

TEST(Counters, TheHighestEpochIsOfActiveCommunicators) {
  TenantCounters tenant;
  EXPECT_EQ(tenant.highest_epoch.value(), 0);
  tenant.EnterEpoch(4);
  tenant.EnterEpoch(9);
  tenant.EnterEpoch(9);
  tenant.LeaveEpoch(9);
  EXPECT_EQ(tenant.highest_epoch.value(), 9);
  tenant.LeaveEpoch(9);
  EXPECT_EQ(tenant.highest_epoch.value(), 4);
  tenant.LeaveEpoch(4);
  EXPECT_EQ(tenant.highest_epoch.value(), 0);
}

TEST(Counters, EveryFailureHasAReason) {
  EXPECT_STREQ(FailureName(FailureClassOf(absl::UnavailableError(""))), "remote");
  EXPECT_STREQ(FailureName(FailureClassOf(absl::FailedPreconditionError(""))), "invalid_usage");
  for (int code = 1; code <= 16; ++code) {
    const absl::Status why(static_cast<absl::StatusCode>(code), "");
    EXPECT_GT(FailureClassOf(why), 0u) << why;
    EXPECT_LT(FailureClassOf(why), kFailureClasses) << why;
  }
}

// With the thread sanitizer this shows that reads need no lock.
TEST(Counters, AReaderSeesMonotonicSums) {
  DaemonCounters counters;
  constexpr uint64_t kOperations = 20'000;
  std::thread engine([&] {
    for (uint64_t i = 0; i < kOperations; ++i) {
      WorkTally tally(counters.Of(absl::StrCat("tenant ", i % 50)));
      tally.Count(OpKind::kAllReduce, 8);
      const GaugeShare session(counters.Of("tenant 0")->sessions);
      counters.turns.Add(1);
    }
  });
  uint64_t seen = 0;
  while (seen < kOperations) {
    uint64_t sum = 0;
    for (const auto& [name, tenant] : counters.Tenants()) {
      sum += tenant->work[kAllReduce].operations.value();
      EXPECT_LE(tenant->sessions.value(), 1);
    }
    EXPECT_GE(sum, seen);
    seen = sum;
  }
  engine.join();
  EXPECT_EQ(counters.turns.value(), kOperations);
}

}  // namespace counters_test
}  // namespace mccs
