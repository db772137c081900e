#include "controller/policy/time_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/policy/clusters.h"

namespace mccs {
namespace time_windows_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

int64_t Ms(double ms) { return static_cast<int64_t>(ms * kNsPerMs); }

// Two racks of two hosts, two spines.
class FindWaitRulesTest : public testing::Test {
 protected:
  FindWaitRulesTest()
      : view_(ViewOf(RoutedLeafSpine({.racks = 2, .hosts_per_rack = 2, .spines = 2}))) {}

  // The source ports of all its lanes lead over `spine`; −1: ports without a known path.
  void Start(const std::string& tenant, const std::vector<std::string>& hosts, int spine) {
    CommunicatorView& job = AddCommunicator(&view_, view_.communicators.size() + 1, tenant, hosts);
    job.owner.name = tenant;
    uint32_t port = 61000 + 2000 * static_cast<uint32_t>(spine);
    for (size_t h = 0; h < hosts.size() && spine >= 0; ++h)
      job.strategy.mutable_channels(0)->add_source_ports(port++);
  }

  // All communicators have one Policy, which favours tenant a.
  std::vector<WaitRule> Decide() {
    return FindWaitRules(view_, Fabrics(view_),
                         std::vector(view_.communicators.size(), &favoured_));
  }

  const std::vector<std::string> favoured_ = {"a"};
  ClusterView view_;
};

TEST_F(FindWaitRulesTest, SharingALinkWithTheFavouredWaits) {
  Start("a", {"h0", "h2"}, 0);
  Start("b", {"h1", "h3"}, 0);
  Start("b", {"h1", "h3"}, 1);  // over the other spine
  Start("b", {"h0", "h1"}, 0);  // out of h0's NIC
  Start("b", {"h1"}, -1);       // no network
  Start("a", {"h1", "h3"}, 0);
  EXPECT_THAT(Decide(), ElementsAre(WaitRule{CommId(2), {CommId(1), CommId(6)}, {"h1", "h3"}},
                                    WaitRule{CommId(3), {CommId(6)}, {"h1", "h3"}},
                                    WaitRule{CommId(4), {CommId(1), CommId(6)}, {"h0", "h1"}}));
}

TEST_F(FindWaitRulesTest, UnknownPathCountsAsShared) {
  Start("a", {"h0", "h2"}, 0);
  Start("b", {"h1", "h3"}, -1);
  Start("b", {"h1", "elsewhere"}, -1);
  EXPECT_EQ(Decide().size(), 2u);
}

TEST_F(FindWaitRulesTest, OtherPoliciesDoNotWait) {
  Start("a", {"h0", "h2"}, 0);
  Start("b", {"h1", "h3"}, 0);
  EXPECT_THAT(FindWaitRules(view_, Fabrics(view_), {&favoured_, nullptr}), IsEmpty());
  EXPECT_EQ(FindWaitRules(view_, Fabrics(view_), {nullptr, &favoured_}).size(), 1u);
}

constexpr Period kPeriod = {.period_ns = 200 * kNsPerMs,
                            .busy_ns = 50 * kNsPerMs,
                            .onset = 7 * kNsPerSec,
                            .error_ns = 2 * kNsPerMs};

TEST(TimeWindows, LieInThePausesWithAGuardTime) {
  const auto windows = PlanWindows(kPeriod, Ms(1));
  ASSERT_TRUE(windows.ok()) << windows.status();
  EXPECT_EQ(windows->period_ns, kPeriod.period_ns);
  EXPECT_EQ(windows->origin, kPeriod.onset + Ms(51));
  // Clock error, irregularity, data in transit, and tolerance of updates.
  EXPECT_EQ(windows->open_ns, Ms(150 - 2 * 1 - 2 - 2 - 2.5));
}

TEST(TimeWindows, DoNotExistForShortPauses) {
  Period busy = kPeriod;
  busy.busy_ns = Ms(180);
  EXPECT_THAT(PlanWindows(busy, Ms(1)).status().message(),
              HasSubstr("its pause of 20 ms in each period of 200 ms is too short"));
  EXPECT_FALSE(PlanWindows(kPeriod, Ms(80)).ok()) << "a large clock error";
  Period irregular = kPeriod;
  irregular.error_ns = Ms(130);
  EXPECT_FALSE(PlanWindows(irregular, Ms(1)).ok());
}

TEST(TimeWindows, DifferWhenTheirEdgesHaveMoved) {
  const PlannedWindows sent = {.period_ns = Ms(200), .origin = Ms(1000), .open_ns = Ms(120)};
  const MonotonicNs now = Ms(90'000);
  const auto same = [&](PlannedWindows fresh) { return AreClose(sent, fresh, now, kNsPerSec); };
  PlannedWindows fresh = sent;
  EXPECT_TRUE(same(fresh));
  fresh.origin += 50 * Ms(200) + Ms(2);
  EXPECT_TRUE(same(fresh));
  fresh.origin -= Ms(4);
  EXPECT_TRUE(same(fresh));
  fresh.origin -= Ms(2);
  EXPECT_FALSE(same(fresh));
  fresh = sent;
  fresh.open_ns -= Ms(6);
  EXPECT_FALSE(same(fresh));
  // Equal now, different a second later.
  fresh = {.period_ns = Ms(202), .origin = now, .open_ns = Ms(120)};
  EXPECT_FALSE(same(fresh));
  fresh.period_ns = Ms(200.3);
  EXPECT_TRUE(same(fresh));
  // Different now, equal a second later.
  fresh = {.period_ns = Ms(250), .origin = now, .open_ns = Ms(120)};
  EXPECT_FALSE(same(fresh));
}

}  // namespace time_windows_test
}  // namespace mccs
