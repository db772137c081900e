#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/unit/topology/linear_program.h"
#include "tests/unit/topology/max_min_oracle.h"
#include "tests/unit/topology/small_topologies.h"
#include "topology/guarantees.h"
#include "topology/max_min_shares.h"

namespace mccs {
namespace max_min_property_test {

TEST(LinearProgram, FindsTheMaximum) {
  LinearProgram program(2);
  program.SetObjective(0, 3);
  program.SetObjective(1, 5);
  program.AddRow({1, 0}, 4);
  program.AddRow({0, 2}, 12);
  program.AddRow({3, 2}, 18);
  EXPECT_DOUBLE_EQ(program.Maximum(), 36);
}

TEST(LinearProgram, ReportsAnUnboundedObjective) {
  LinearProgram program(2);
  program.SetObjective(0, 1);
  program.AddRow({-1, 1}, 4);
  EXPECT_GT(program.Maximum(), 1e300);
}

// Capacities differ between links, and so do bottlenecks.
std::vector<double> RandomCapacities(const Topology& topology, std::mt19937& random) {
  std::vector<double> capacity(topology.arc_count());
  for (double& c : capacity) c = 10.0 * (1 + random() % 20);
  return capacity;
}

// Whether guarantees fit, each counted up to its flow's demand.
bool GuaranteesFit(const std::vector<double>& capacity, std::vector<FlowDemand> flows) {
  for (FlowDemand& flow : flows)
    flow.guarantee_bps = std::min({flow.guarantee_bps, flow.demand_bps, flow.cap_bps});
  return FindBrokenGuarantees(capacity, flows).empty();
}

TEST(MaxMinSharesProperty, EqualTheLinearPrograms) {
  int solved = 0;
  for (unsigned seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const Topology topology = LeafSpine({.hosts_per_rack = static_cast<int>(1 + random() % 2)});
    const std::vector<double> capacity = RandomCapacities(topology, random);
    const auto flows = RandomFlows(topology, 1 + random() % 8, 10, random);
    const auto shares = MaxMinShares(capacity, flows);
    if (!GuaranteesFit(capacity, flows)) {
      EXPECT_EQ(shares.status().code(), absl::StatusCode::kFailedPrecondition);
      continue;
    }
    ASSERT_TRUE(shares.ok()) << shares.status();
    const std::vector<double> expected = MaxMinByLinearPrograms(capacity, flows);
    for (size_t f = 0; f < flows.size(); ++f) {
      EXPECT_NEAR((*shares)[f].rate_bps, expected[f], 1e-6 * std::max(1.0, expected[f]))
          << "flow " << f << " of " << flows.size();
    }
    ++solved;
  }
  EXPECT_GT(solved, 1000);
}

// The characteristic property of max-min fair rates (Bertsekas and Gallager, section 6.5.2,
// proposition): a flow below its demand crosses a full arc on which no flow has a higher level,
// except by its guarantee.
void ExpectFair(const std::vector<double>& capacity, const std::vector<FlowDemand>& flows,
                const std::vector<Share>& shares) {
  constexpr double kClose = 1e-6;
  std::vector<double> load(capacity.size()), highest(capacity.size());
  for (size_t f = 0; f < flows.size(); ++f) {
    const double floor = std::min({flows[f].guarantee_bps, flows[f].demand_bps, flows[f].cap_bps});
    const double rate = shares[f].rate_bps;
    EXPECT_GE(rate, floor);
    EXPECT_LE(rate, std::min(flows[f].demand_bps, flows[f].cap_bps));
    for (const ArcId arc : flows[f].path) {
      load[arc.value()] += rate;
      if (rate > floor * (1 + kClose))
        highest[arc.value()] = std::max(highest[arc.value()], rate / flows[f].weight);
    }
  }
  for (size_t a = 0; a < capacity.size(); ++a)
    EXPECT_LE(load[a], capacity[a] * (1 + kRateTolerance)) << "arc " << a;
  for (size_t f = 0; f < flows.size(); ++f) {
    if (shares[f].limit != ShareLimit::kLink) {
      EXPECT_EQ(shares[f].rate_bps,
                shares[f].limit == ShareLimit::kCap ? flows[f].cap_bps : flows[f].demand_bps);
      continue;
    }
    const auto arc = static_cast<size_t>(shares[f].full_arc.value());
    EXPECT_NE(std::find(flows[f].path.begin(), flows[f].path.end(), shares[f].full_arc),
              flows[f].path.end());
    EXPECT_GE(load[arc], capacity[arc] * (1 - kClose)) << "flow " << f;
    EXPECT_GE(shares[f].rate_bps / flows[f].weight, highest[arc] * (1 - kClose)) << "flow " << f;
  }
}

TEST(MaxMinSharesProperty, EveryFlowOfALargeClusterHasItsBottleneck) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const Topology topology = LeafSpine({.racks = 8,
                                         .hosts_per_rack = 4,
                                         .nics_per_host = 4,
                                         .spines = 8,
                                         .nic_bps = 200'000'000'000,
                                         .uplink_bps = 200'000'000'000});
    std::vector<FlowDemand> flows = RandomFlows(topology, 2000, 1e7, random);
    const auto shares = MaxMinShares(topology.ArcCapacities(), flows);
    ASSERT_TRUE(shares.ok()) << shares.status();
    ExpectFair(topology.ArcCapacities(), flows, *shares);
  }
}

TEST(MaxMinSharesProperty, TheOrderOfTheFlowsDoesNotMatter) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const Topology topology = LeafSpine({.racks = 3, .nic_bps = 1000, .uplink_bps = 700});
    std::vector<FlowDemand> flows = RandomFlows(topology, 40, 1, random);
    const auto shares = MaxMinShares(topology.ArcCapacities(), flows);
    ASSERT_TRUE(shares.ok()) << shares.status();
    std::reverse(flows.begin(), flows.end());
    const auto again = MaxMinShares(topology.ArcCapacities(), flows);
    ASSERT_TRUE(again.ok()) << again.status();
    for (size_t f = 0; f < flows.size(); ++f) {
      const double rate = (*shares)[f].rate_bps;
      EXPECT_NEAR((*again)[flows.size() - 1 - f].rate_bps, rate, 1e-9 * std::max(1.0, rate));
    }
  }
}

}  // namespace max_min_property_test
}  // namespace mccs
