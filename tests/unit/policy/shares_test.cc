#include "controller/policy/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "tests/unit/mentions.h"
#include "tests/unit/policy/clusters.h"

namespace mccs {
namespace shares_test {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::Property;

constexpr uint64_t kGbps = 1'000'000'000;
const double kPart = UsableFraction(1500), kPayload = 100 * kGbps * kPart;  // of each link

// Two racks of two hosts with two NICs, two spines; every link carries 100 Gb/s.
class SharesTest : public testing::Test {
 protected:
  SharesTest()
      : view_(ViewOf(RoutedLeafSpine({.racks = 2,
                                      .hosts_per_rack = 2,
                                      .nics_per_host = 2,
                                      .spines = 2,
                                      .nic_bps = 100 * kGbps,
                                      .uplink_bps = 100 * kGbps}))) {}

  // Uses NIC 0 of its hosts; the source ports of all its lanes lead over one spine.
  CommunicatorView& Start(const std::string& tenant, const std::vector<std::string>& hosts,
                          int spine, int channels = 1) {
    CommunicatorView& job =
        AddCommunicator(&view_, view_.communicators.size() + 1, tenant, hosts, {0}, channels);
    uint32_t port = 61000 + 2000 * spine + 100 * static_cast<uint32_t>(job.id.value());
    for (auto& channel : *job.strategy.mutable_channels()) {
      for (size_t h = 0; h < hosts.size(); ++h) channel.add_source_ports(port++);
    }
    return job;
  }

  AllShares Find() {
    fabrics_.emplace(view_);
    return FindShares(view_, *fabrics_);
  }

  static auto HasRate(double rate) {
    return Field(&FlowShare::rate_bps, DoubleNear(rate, 1e-6 * rate));
  }

  ClusterView view_;
  std::optional<Fabrics> fabrics_;
};

TEST_F(SharesTest, SingleJobHasTheWholeLink) {
  Start("a", {"h0", "h2"}, 0);
  const AllShares shares = Find();
  ASSERT_EQ(shares.flows[0].size(), 2u);
  EXPECT_THAT(shares.flows[0], Each(HasRate(kPayload)));
  EXPECT_TRUE(shares.flows[0][0].on_path);
  EXPECT_EQ(shares.flows[0][0].path.size(), 4u);
}

TEST_F(SharesTest, TenantsShareALinkByWeightNotByLanes) {
  Start("a", {"h0", "h2"}, 0).owner.weight = 3;
  Start("b", {"h0", "h2"}, 1, 2);  // shares only the NICs
  const AllShares shares = Find();
  EXPECT_THAT(shares.flows[0], Each(HasRate(0.75 * kPayload)));
  EXPECT_THAT(shares.flows[1], Each(HasRate(0.125 * kPayload)));
}

TEST_F(SharesTest, GuaranteeHoldsBesideManyOthers) {
  Start("a", {"h0", "h2"}, 0).owner.guarantee_bps = 60 * kGbps;
  for (int i = 0; i < 3; ++i) Start(absl::StrCat("b", i), {"h1", "h3"}, 0);
  const AllShares shares = Find();
  EXPECT_THAT(shares.flows[0], Each(HasRate(60.0 * kGbps)));
  EXPECT_THAT(shares.flows[1], Each(HasRate((kPayload - 60.0 * kGbps) / 3)));
  EXPECT_THAT(shares.broken, IsEmpty());
}

TEST_F(SharesTest, OthersGetWhatACapLeaves) {
  Start("a", {"h0", "h2"}, 0).owner.cap_bps = 10 * kGbps;
  Start("b", {"h1", "h3"}, 0);
  const AllShares shares = Find();
  EXPECT_THAT(shares.flows[0], Each(HasRate(10.0 * kGbps)));
  EXPECT_EQ(shares.flows[0][0].limit, ShareLimit::kCap);
  EXPECT_THAT(shares.flows[1], Each(HasRate(kPayload - 10.0 * kGbps)));
}

TEST_F(SharesTest, ReportsAndLowersGuaranteesAboveALink) {
  Start("a", {"h0", "h2"}, 0).owner.guarantee_bps = 80 * kGbps;
  Start("b", {"h1", "h3"}, 0).owner.guarantee_bps = 40 * kGbps;
  const AllShares shares = Find();
  ASSERT_EQ(shares.broken.size(), 4u);  // both directions of two links
  EXPECT_THAT(Describe(shares.broken[0]),
              OneLineMentions("leaf0 → spine0", FormatBitRate(kPayload), "120 G", "tenants a, b"));
  EXPECT_THAT(shares.flows[0], Each(HasRate(kPayload * 2 / 3)));
  EXPECT_THAT(shares.flows[1], Each(HasRate(kPayload / 3)));
}

TEST_F(SharesTest, UnknownPathCountsOnlyNicLinks) {
  Start("a", {"h0", "h2"}, 0).strategy.mutable_channels(0)->clear_source_ports();
  const AllShares shares = Find();
  EXPECT_FALSE(shares.flows[0][0].on_path);
  EXPECT_EQ(shares.flows[0][0].path.size(), 2u);
  EXPECT_THAT(shares.flows[0], Each(HasRate(kPayload)));
}

TEST_F(SharesTest, LargerPacketsCarryMorePayload) {
  auto jumbo = std::make_shared<Topology>(*view_.topologies[0]);
  jumbo->SetMtu(9000);
  view_.topologies[0] = jumbo;
  Start("a", {"h0", "h2"}, 0);
  EXPECT_THAT(Find().flows[0], Each(HasRate(100 * kGbps * UsableFraction(9000))));
}

TEST_F(SharesTest, NoSharesWithoutATopology) {
  Start("a", {"h0", "h2"}, 0);
  view_.topologies.clear();
  EXPECT_THAT(Find().flows, ElementsAre(IsEmpty()));
}

TEST_F(SharesTest, SharesSetsRatesAndCapsApplyToAll) {
  Start("a", {"h0", "h2"}, 0);
  Start("b", {"h1", "h3"}, 0, 2).owner = {.name = "b", .cap_bps = 30 * kGbps, .priority = 5};
  Start("c", {"h0", "h2"}, 1);
  const auto limits = PlanRateLimits(view_, Find(), {true, false, false});
  ASSERT_EQ(limits.size(), 3u);
  const auto half = static_cast<uint64_t>(std::round(kPayload / 2));
  ASSERT_EQ(limits[0].lanes_size(), 2);
  for (const int from : {0, 1}) {
    const agent::v1::LaneRateLimit& lane = limits[0].lanes(from);
    EXPECT_EQ(std::tuple(lane.channel(), lane.from(), lane.to(), lane.rate_bps()),
              std::tuple(0, from, 1 - from, half));
  }
  EXPECT_EQ(limits[0].tenant_rate_bps(), 0u);
  EXPECT_THAT(limits[1].lanes(), IsEmpty());
  EXPECT_EQ(limits[1].tenant_rate_bps(), 30 * kGbps);
  EXPECT_EQ(limits[1].tenant(), "b");
  EXPECT_EQ(limits[1].priority(), 5u);
  EXPECT_THAT(limits[2].lanes(), IsEmpty());
}

// A rate of 0 would mean no limit.
TEST_F(SharesTest, EveryLaneHasAMinimalRate) {
  Start("a", {"h0", "h2"}, 0).owner = {.name = "a", .weight = 1e6};
  Start("b", {"h0", "h2"}, 0, 3).owner = {.name = "b", .weight = 1e-6};
  const auto least = Each(Property(&agent::v1::LaneRateLimit::rate_bps, kLeastLaneBps));
  auto limits = PlanRateLimits(view_, Find(), {true, true});
  EXPECT_EQ(limits[1].lanes_size(), 6);
  EXPECT_THAT(limits[1].lanes(), least);
  // Others have a guarantee for the whole link.
  view_.communicators[0].owner.guarantee_bps = 100 * kGbps;
  view_.communicators[1].owner.weight = 1;
  limits = PlanRateLimits(view_, Find(), {true, true});
  EXPECT_EQ(limits[1].lanes_size(), 6);
  EXPECT_THAT(limits[1].lanes(), least);
  // The minimal rate does not exceed a cap.
  view_.communicators[0].owner = {.name = "a"};
  view_.communicators[1].owner = {.name = "b", .cap_bps = 3000};
  limits = PlanRateLimits(view_, Find(), {true, true});
  EXPECT_THAT(limits[1].lanes(), Each(Property(&agent::v1::LaneRateLimit::rate_bps, 1000u)));
}

TEST_F(SharesTest, LanesOverADownLinkHaveNoRate) {
  Start("a", {"h0", "h2"}, 0);
  view_.links_down = {"h0/nic0-leaf0"};
  const AllShares shares = Find();
  EXPECT_THAT(shares.flows[0], Each(Field(&FlowShare::down, true)));
  EXPECT_THAT(PlanRateLimits(view_, shares, {true})[0].lanes(), IsEmpty());
}

// Random jobs of tenants with and without limits: no rate is above a cap, or below a guarantee
// (unless that was lowered), and no link carries more than its capacity.
TEST_F(SharesTest, RatesStayWithinLimitsForRandomJobs) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    view_.communicators.clear();
    std::map<std::string, TenantView> tenants;
    for (const char* name : {"a", "b", "c"}) {
      TenantView& tenant = tenants[name];
      tenant = {.name = name, .weight = 1.0 + random() % 3};
      if (random() % 2 == 0) tenant.guarantee_bps = (1 + random() % 20) * kGbps;
      if (random() % 3 == 0) tenant.cap_bps = (20 + random() % 40) * kGbps;
    }
    for (int job = 0; job < 8; ++job) {
      std::set<std::string> hosts;
      while (hosts.size() < 2 + random() % 2) hosts.insert(absl::StrCat("h", random() % 4));
      const std::string tenant(1, static_cast<char>('a' + random() % 3));
      Start(tenant, {hosts.begin(), hosts.end()}, static_cast<int>(random() % 2),
            1 + static_cast<int>(random() % 3))
          .owner = tenants[tenant];
    }
    const AllShares shares = Find();
    const auto capacity = fabrics_->all()[0]->capacity_bps();
    std::vector<double> load(capacity.size());
    std::map<std::pair<std::string, ArcId>, double> out_of_nic;
    for (size_t c = 0; c < shares.flows.size(); ++c) {
      for (const FlowShare& flow : shares.flows[c]) {
        for (const ArcId arc : flow.path) load[arc.value()] += flow.rate_bps;
        out_of_nic[{view_.communicators[c].owner.name, flow.path.front()}] += flow.rate_bps;
      }
    }
    for (size_t arc = 0; arc < load.size(); ++arc)
      EXPECT_LE(load[arc], capacity[arc] * kPart * (1 + 1e-6));
    for (const auto& [who, rate] : out_of_nic) {
      const TenantView& tenant = tenants[who.first];
      if (tenant.cap_bps) {
        EXPECT_LE(rate, static_cast<double>(*tenant.cap_bps) * (1 + 1e-9));
      }
      if (tenant.guarantee_bps && shares.broken.empty()) {
        EXPECT_GE(rate, static_cast<double>(*tenant.guarantee_bps) * (1 - 1e-9));
      }
    }
  }
}

}  // namespace shares_test
}  // namespace mccs
