#include "topology/max_min_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/topology/small_topologies.h"
#include "topology/topology.h"

namespace mccs {
namespace max_min_shares_test {

using testing::HasSubstr;

Path Over(std::initializer_list<int> arcs) {
  Path path;
  for (const int arc : arcs) path.push_back(ArcId(arc));
  return path;
}

std::vector<Share> Shares(const std::vector<double>& capacity,
                          const std::vector<FlowDemand>& flows) {
  const auto shares = MaxMinShares(capacity, flows);
  EXPECT_TRUE(shares.ok()) << shares.status();
  return shares.value_or(std::vector<Share>(flows.size()));
}

TEST(MaxMinShares, OneLinkIsSharedByWeight) {
  const auto shares =
      Shares({12}, {{.path = Over({0}), .weight = 1}, {.path = Over({0}), .weight = 3}});
  EXPECT_DOUBLE_EQ(shares[0].rate_bps, 3);
  EXPECT_DOUBLE_EQ(shares[1].rate_bps, 9);
  EXPECT_EQ(shares[0].limit, ShareLimit::kLink);
  EXPECT_EQ(shares[0].full_arc, ArcId(0));
}

TEST(MaxMinShares, UnusedRateIsFreeOnOtherLinks) {
  const auto shares = Shares(
      {1, 1, 1},
      {{.path = Over({0})}, {.path = Over({0})}, {.path = Over({0, 1})}, {.path = Over({1, 2})}});
  EXPECT_DOUBLE_EQ(shares[0].rate_bps, 1.0 / 3);
  EXPECT_DOUBLE_EQ(shares[2].rate_bps, 1.0 / 3);
  EXPECT_DOUBLE_EQ(shares[3].rate_bps, 2.0 / 3);
  EXPECT_EQ(shares[2].full_arc, ArcId(0));
  EXPECT_EQ(shares[3].full_arc, ArcId(1));
}

TEST(MaxMinShares, NoFlowExceedsItsDemandOrCap) {
  const auto shares = Shares({30}, {{.path = Over({0}), .demand_bps = 4},
                                    {.path = Over({0}), .cap_bps = 6},
                                    {.path = Over({0})}});
  EXPECT_DOUBLE_EQ(shares[0].rate_bps, 4);
  EXPECT_EQ(shares[0].limit, ShareLimit::kDemand);
  EXPECT_DOUBLE_EQ(shares[1].rate_bps, 6);
  EXPECT_EQ(shares[1].limit, ShareLimit::kCap);
  EXPECT_DOUBLE_EQ(shares[2].rate_bps, 20);
}

TEST(MaxMinShares, HoldsAGuaranteeAndSharesTheRest) {
  const auto shares = Shares(
      {30}, {{.path = Over({0}), .guarantee_bps = 18}, {.path = Over({0})}, {.path = Over({0})}});
  EXPECT_DOUBLE_EQ(shares[0].rate_bps, 18);
  EXPECT_DOUBLE_EQ(shares[1].rate_bps, 6);
  EXPECT_DOUBLE_EQ(shares[2].rate_bps, 6);
  EXPECT_EQ(shares[0].limit, ShareLimit::kLink);
}

TEST(MaxMinShares, AGuaranteeBelowTheFairShareChangesNothing) {
  const auto shares = Shares({30}, {{.path = Over({0}), .guarantee_bps = 5}, {.path = Over({0})}});
  EXPECT_DOUBLE_EQ(shares[0].rate_bps, 15);
  EXPECT_DOUBLE_EQ(shares[1].rate_bps, 15);
}

TEST(MaxMinShares, UndemandedGuaranteeGoesToOthers) {
  const auto shares = Shares(
      {30}, {{.path = Over({0}), .demand_bps = 2, .guarantee_bps = 20}, {.path = Over({0})}});
  EXPECT_DOUBLE_EQ(shares[0].rate_bps, 2);
  EXPECT_EQ(shares[0].limit, ShareLimit::kDemand);
  EXPECT_DOUBLE_EQ(shares[1].rate_bps, 28);
}

TEST(MaxMinShares, GuaranteesMayFillALink) {
  const auto shares = Shares(
      {30, 100},
      {{.path = Over({0}), .guarantee_bps = 30}, {.path = Over({0, 1})}, {.path = Over({1})}});
  EXPECT_DOUBLE_EQ(shares[0].rate_bps, 30);
  EXPECT_DOUBLE_EQ(shares[1].rate_bps, 0);
  EXPECT_DOUBLE_EQ(shares[2].rate_bps, 100);
}

TEST(MaxMinShares, HandlesWeightsOfVeryDifferentSize) {
  const auto shares = Shares({1e9}, {{.path = Over({0}), .weight = 1e9, .demand_bps = 4e8},
                                     {.path = Over({0}), .weight = 1e-9},
                                     {.path = Over({0}), .weight = 2e-9}});
  EXPECT_DOUBLE_EQ(shares[0].rate_bps, 4e8);
  EXPECT_NEAR(shares[1].rate_bps, 2e8, 1);
  EXPECT_NEAR(shares[2].rate_bps, 4e8, 1);
}

TEST(MaxMinShares, AcceptsFlowsWithoutDemandPathOrCapacity) {
  const auto shares = Shares({0, 10}, {{.path = Over({0, 1})},
                                       {.path = Over({1}), .demand_bps = 0},
                                       {.path = {}, .demand_bps = 7},
                                       {.path = Over({1})}});
  EXPECT_DOUBLE_EQ(shares[0].rate_bps, 0);
  EXPECT_EQ(shares[0].full_arc, ArcId(0));
  EXPECT_DOUBLE_EQ(shares[1].rate_bps, 0);
  EXPECT_DOUBLE_EQ(shares[2].rate_bps, 7);
  EXPECT_DOUBLE_EQ(shares[3].rate_bps, 10);
  EXPECT_TRUE(Shares({}, {}).empty());
}

TEST(MaxMinShares, RejectsGuaranteesAboveCapacityWithNumbers) {
  const auto shares =
      MaxMinShares(std::vector<double>{5e10, 1e10},
                   std::vector<FlowDemand>{{.path = Over({0, 1}), .guarantee_bps = 8e9},
                                           {.path = Over({1}), .guarantee_bps = 4e9}});
  EXPECT_EQ(shares.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shares.status().message(),
            "arc 1 can carry 10 Gbit/s, but the guarantees on it add up to 12 Gbit/s");
}

TEST(MaxMinShares, RejectsValuesOutOfRange) {
  const auto error = [](FlowDemand flow) {
    const auto shares = MaxMinShares(std::vector<double>{1}, std::vector<FlowDemand>{flow});
    EXPECT_EQ(shares.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(shares.status().message());
  };
  const Path path = Over({0});
  for (const double weight : {0.0, -1.0, std::nan(""), HUGE_VAL})
    EXPECT_EQ(error({.path = path, .weight = weight}),
              "flow 0: weight must be finite and above zero");
  EXPECT_THAT(error({.path = path, .demand_bps = -1}), HasSubstr("must not be negative"));
  EXPECT_THAT(error({.path = path, .demand_bps = std::nan("")}), HasSubstr("must not be negative"));
  EXPECT_THAT(error({.path = path, .guarantee_bps = HUGE_VAL}), HasSubstr("must be finite"));
  EXPECT_THAT(error({.path = path, .guarantee_bps = 2, .cap_bps = 1}), HasSubstr("cap is below"));
  EXPECT_THAT(error({.path = Over({1})}), HasSubstr("unknown arc"));
  EXPECT_THAT(error({.path = Over({-1})}), HasSubstr("unknown arc"));
  EXPECT_THAT(error({.path = {}}), HasSubstr("no path"));
}

using testing::ElementsAre;

FlowDemand Guaranteed(const Topology& topology, const char* from, const char* to, int path,
                      double guarantee_bps) {
  EcmpPaths paths(topology);
  return {.path = paths.Between(*topology.FindNic(from), *topology.FindNic(to))[PathIndex(path)],
          .guarantee_bps = guarantee_bps};
}

TEST(Guarantees, AcceptsGuaranteesThatFit) {
  const Topology topology = LeafSpine({});
  const std::vector<FlowDemand> flows = {Guaranteed(topology, "h0/nic0", "h2/nic0", 0, 60),
                                         Guaranteed(topology, "h1/nic0", "h3/nic0", 0, 40),
                                         Guaranteed(topology, "h1/nic0", "h3/nic0", 1, 60)};
  EXPECT_TRUE(FindBrokenGuarantees(topology.ArcCapacities(), flows).empty());
}

TEST(Guarantees, AcceptsFractionsThatAddUp) {
  const Topology topology = LeafSpine({});
  const std::vector<FlowDemand> flows(10,
                                      Guaranteed(topology, "h0/nic0", "h2/nic0", 0, 10.0 + 1e-9));
  EXPECT_TRUE(FindBrokenGuarantees(topology.ArcCapacities(), flows).empty());
}

TEST(Guarantees, ReportsLinkAndNumbers) {
  const Topology topology = LeafSpine({.nic_bps = 100'000'000'000, .uplink_bps = 50'000'000'000});
  const std::vector<FlowDemand> flows = {Guaranteed(topology, "h0/nic0", "h2/nic0", 1, 30e9),
                                         Guaranteed(topology, "h0/nic0", "h2/nic0", 1, 0),
                                         Guaranteed(topology, "h1/nic0", "h3/nic0", 1, 32.5e9)};
  const auto broken = FindBrokenGuarantees(topology.ArcCapacities(), flows);
  ASSERT_EQ(broken.size(), 2u);
  EXPECT_THAT(broken[0].flows, ElementsAre(0, 2));
  EXPECT_EQ(topology.ArcName(broken[0].arc), "leaf0 → spine1");
  EXPECT_EQ(topology.ArcName(broken[1].arc), "spine1 → leaf1");
  EXPECT_EQ(broken[0].capacity_bps, 50e9);
  EXPECT_EQ(broken[0].guaranteed_bps, 62.5e9);
}

TEST(PayloadFraction, MatchesASaturatedLinkInBothDirections) {
  EXPECT_NEAR(PayloadFraction(1500), 0.9546, 0.0005);
  EXPECT_NEAR(PayloadFraction(9000), 0.9905, 0.0005);
}

TEST(PayloadFraction, LargerPacketsCarryMorePayload) {
  double before = 0;
  for (int32_t mtu = Topology::kMinMtuBytes; mtu <= Topology::kMaxMtuBytes; ++mtu) {
    const double part = PayloadFraction(mtu);
    ASSERT_GT(part, before) << mtu;
    ASSERT_LT(part, 1) << mtu;
    before = part;
  }
}

}  // namespace max_min_shares_test
}  // namespace mccs
