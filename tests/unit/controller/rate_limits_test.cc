#include "controller/rates/rate_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "base/units.h"
#include "controller/rates/sent_limits.h"
#include "controller/state/resolved_view.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/mentions.h"
#include "tests/unit/objects/documents.h"
#include "tests/unit/policy/clusters.h"

namespace mccs {
namespace rate_limits_test {

using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kGbps = 1'000'000'000;

// Hosts h0 to h2 at one switch, each with a NIC of 50 Gb/s; communicator 1 of tenant a and 2 of b,
// both on h0 and h1.
class RateLimitsTest : public testing::Test {
 protected:
  RateLimitsTest() {
    view_ = ViewOf(TopologyOf(*Objects("", "", "").Find({ObjectKind::kTopology, "t"})).topology);
    view_.topologies.clear();
    AddCommunicator(&view_, 1, "uid 1", {"h0", "h1"});
    AddCommunicator(&view_, 2, "uid 2", {"h0", "h1"});
  }

  static ObjectSet Objects(const std::string& a, const std::string& b, const std::string& policy) {
    std::string text = Together(
        {TopologyDocument("t", "h[0-2]"), TenantDocument("a", 1, a), TenantDocument("b", 2, b)});
    if (!policy.empty()) text += "---\n" + PolicyDocument("p", "  type: " + policy + "\n");
    return After({}, text);
  }

  std::vector<PlannedRateLimits> Decide(const ObjectSet& objects) const {
    return DecideAll(objects).paces;
  }
  DecidedRateLimits DecideAll(const ObjectSet& objects) const {
    const ClusterView resolved = ResolveView(view_, objects);
    return DecideRateLimits(objects, resolved, Fabrics(resolved));
  }

  ClusterView view_;
};

TEST_F(RateLimitsTest, SharesGivesRatesByWeight) {
  const auto paces = Decide(Objects("  weight: 3\n", "", "shares"));
  ASSERT_EQ(paces.size(), 2u);
  EXPECT_EQ(paces[0].lanes.size(), 2u);
  const auto rate = [](double part) {
    return Field(&PlannedRateLimits::Lane::rate_bps,
                 static_cast<uint64_t>(std::round(part * UsableFraction(1500) * 50 * kGbps)));
  };
  EXPECT_THAT(paces[0].lanes, Each(rate(0.75)));
  EXPECT_THAT(paces[1].lanes, Each(rate(0.25)));
}

TEST_F(RateLimitsTest, CapAndPriorityApplyUnderEveryPolicy) {
  const auto paces = Decide(Objects("  cap: 10Gbit/s\n", "  priority: 6\n", ""));
  EXPECT_EQ(paces[0].tenant_rate_bps, 10 * kGbps);
  EXPECT_EQ(paces[0].tenant, "a");
  EXPECT_EQ(paces[1].tenant_rate_bps, 0u);
  EXPECT_THAT(paces[1].lanes, IsEmpty());
  EXPECT_EQ(paces[1].priority, 6u);
}

// Under shares, lanes get at most their part of the cap, and the Tenant gets at most the cap for
// everything that it sends.
TEST_F(RateLimitsTest, CapLimitsLanesAndTenantUnderShares) {
  const auto paces = Decide(Objects("  cap: 10Gbit/s\n", "", "shares"));
  EXPECT_THAT(paces[0].lanes, Each(Field(&PlannedRateLimits::Lane::rate_bps, 10 * kGbps)));
  EXPECT_EQ(paces[0].lanes.size(), 2u);
  EXPECT_EQ(paces[0].tenant_rate_bps, 10 * kGbps);
}

TEST_F(RateLimitsTest, CapAppliesWithoutATopology) {
  const ObjectSet objects = After({}, TenantDocument("a", 1, "  cap: 10Gbit/s\n"));
  const auto paces = Decide(objects);
  EXPECT_THAT(paces[0].lanes, IsEmpty());
  EXPECT_EQ(paces[0].tenant_rate_bps, 10 * kGbps);
  EXPECT_EQ(paces[1].tenant_rate_bps, 0u);
}

// The guarantees existed before the jobs.
TEST_F(RateLimitsTest, ReportsGuaranteesThatLinksCannotHold) {
  const ObjectSet kept = Objects("  guarantee: 30Gbit/s\n", "  guarantee: 17Gbit/s\n", "shares");
  EXPECT_THAT(DecideAll(kept).broken, IsEmpty());
  const ObjectSet broken = Objects("  guarantee: 30Gbit/s\n", "  guarantee: 20Gbit/s\n", "shares");
  EXPECT_THAT(DecideAll(broken).broken,
              Contains(HasSubstr("but 50 Gbit/s of it are guaranteed to tenants a, b")));
}

TEST_F(RateLimitsTest, RejectsAGuaranteeThatLinksCannotHold) {
  const ObjectSet before = Objects("  guarantee: 30Gbit/s\n", "", "shares");
  const ObjectSet fits = Objects("  guarantee: 30Gbit/s\n", "  guarantee: 17Gbit/s\n", "shares");
  const ObjectSet broken = Objects("  guarantee: 30Gbit/s\n", "  guarantee: 20Gbit/s\n", "shares");
  EXPECT_TRUE(CheckGuarantees(before, fits, view_).ok());
  const absl::Status refusal = CheckGuarantees(before, broken, view_);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refusal.message()),
              Mentions("Tenant 'b'", "spec.guarantee", "h0/nic0 → leaf0", "50 G", "tenants a, b",
                       FormatBitRate(UsableFraction(1500) * 50 * kGbps)));
  // The change raises no guarantee, so it is not rejected.
  EXPECT_TRUE(CheckGuarantees(broken, broken, view_).ok());
}

constexpr bool kKeeps = false, kLifts = true;

PlannedRateLimits Paced(uint64_t id, uint64_t rate) {
  return {.id = CommId(id), .lanes = {{.channel = 0, .from = 0, .to = 1, .rate_bps = rate}}};
}

TEST(SentLimits, SendsChangesWithIncreasingRevisions) {
  SentLimits book(100);
  const auto first = book.Update({Paced(1, 7), Paced(2, 8), {.id = CommId(3)}}, kKeeps);
  ASSERT_EQ(first.size(), 2u);  // the third never had a limit
  EXPECT_EQ(first[0].revision(), 101u);
  EXPECT_EQ(first[1].lanes(0).rate_bps(), 8u);
  const auto second = book.Update({Paced(1, 7), Paced(2, 9)}, kKeeps);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].comm_id(), 2u);
  EXPECT_GT(second[0].revision(), first[1].revision());
}

TEST(SentLimits, SendsALiftedLimit) {
  SentLimits book(0);
  book.Update({Paced(1, 7)}, kKeeps);
  const auto lifted = book.Update({{.id = CommId(1)}}, kKeeps);
  ASSERT_EQ(lifted.size(), 1u);
  EXPECT_EQ(lifted[0].lanes_size(), 0);
  EXPECT_THAT(book.Update({{.id = CommId(1)}}, kKeeps), IsEmpty());
}

TEST(SentLimits, LiftsLimitsOfAnEarlierControllerOnce) {
  SentLimits book(100);
  const PlannedRateLimits free{.id = CommId(3)};
  EXPECT_EQ(book.Update({Paced(1, 7), free}, kKeeps).size(), 1u);
  const auto lifted = book.Update({Paced(1, 7), free}, kLifts);
  ASSERT_EQ(lifted.size(), 1u);
  EXPECT_EQ(lifted[0].comm_id(), 3u);
  EXPECT_EQ(lifted[0].revision(), 102u);
  EXPECT_EQ(lifted[0].lanes_size(), 0);
  EXPECT_THAT(book.Update({Paced(1, 7), free}, kLifts), IsEmpty());
  // A host that registers later gets it, too.
  std::map<CommId, CommunicatorRecord> known;
  known[CommId(3)].announced = MakeAnnounce(3, {"h0", "h1"});
  EXPECT_EQ(book.LimitsFor("h1", known).size(), 1u);
}

TEST(SentLimits, SendsACapAndItsEndWithTheTenant) {
  SentLimits book(0);
  PlannedRateLimits capped{.id = CommId(1), .tenant_rate_bps = 7, .tenant = "team-a"};
  const auto told = book.Update({capped}, kKeeps);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].tenant(), "team-a");
  EXPECT_EQ(told[0].tenant_rate_bps(), 7u);
  const auto free = book.Update({{.id = CommId(1)}}, kKeeps);
  ASSERT_EQ(free.size(), 1u);
  EXPECT_EQ(free[0].tenant_rate_bps(), 0u);
}

TEST(SentLimits, ReconnectedDaemonGetsItsLimits) {
  SentLimits book(0);
  book.Update({Paced(1, 7), Paced(2, 8)}, kKeeps);
  std::map<CommId, CommunicatorRecord> known;
  known[CommId(1)].announced = MakeAnnounce(1, {"h0", "h1"});
  known[CommId(2)].announced = MakeAnnounce(2, {"h1", "h2"});
  const auto held = book.LimitsFor("h0", known);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].comm_id(), 1u);
  EXPECT_EQ(book.LimitsFor("h1", known).size(), 2u);
}

}  // namespace rate_limits_test
}  // namespace mccs
