#include "controller/policy/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/unit/topology/small_topologies.h"
#include "topology/max_min_shares.h"

namespace mccs {
namespace placement_test {

class Network {
 public:
  explicit Network(const LeafSpineShape& shape)
      : topology_(LeafSpine(shape)), capacity_(topology_.ArcCapacities()), paths_(topology_) {}

  PlacedFlow FlowBetween(int from, int to, std::optional<int> path = std::nullopt) {
    PlacedFlow flow = {.paths = paths_.Between(NicId(from), NicId(to)), .path = {}};
    if (path) flow.path = PathIndex(*path);
    return flow;
  }
  size_t Place(std::vector<PlacedFlow>* flows) const { return PlaceFlows(capacity_, *flows); }

  // The max-min fair rate of each flow.
  std::vector<double> Rates(const std::vector<PlacedFlow>& flows) const {
    std::vector<FlowDemand> demands;
    for (const PlacedFlow& flow : flows) demands.push_back({.path = flow.paths[*flow.path]});
    const auto shares = MaxMinShares(capacity_, demands);
    EXPECT_TRUE(shares.ok()) << shares.status();
    std::vector<double> rates;
    for (const Share& share : *shares) rates.push_back(share.rate_bps);
    return rates;
  }
  int nics() const { return static_cast<int>(topology_.nics().size()); }

 private:
  const Topology topology_;
  const std::vector<double> capacity_;
  EcmpPaths paths_;
};

std::vector<int> PathsOf(const std::vector<PlacedFlow>& flows) {
  std::vector<int> paths;
  for (const PlacedFlow& flow : flows) paths.push_back(flow.path->value());
  return paths;
}

TEST(Placement, FlowsSpreadUntilNoLinkIsOverloaded) {
  Network network({.racks = 2, .hosts_per_rack = 4, .spines = 4});
  std::vector<PlacedFlow> flows;
  for (int i = 0; i < 4; ++i) flows.push_back(network.FlowBetween(i, 4 + i));
  network.Place(&flows);
  EXPECT_THAT(PathsOf(flows), testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_THAT(network.Rates(flows), testing::Each(100));
}

TEST(Placement, FlowAvoidsAFixedPath) {
  Network network({});
  std::vector<PlacedFlow> flows = {network.FlowBetween(0, 2, 0), network.FlowBetween(1, 3)};
  flows[0].fixed = true;
  network.Place(&flows);
  EXPECT_THAT(PathsOf(flows), testing::ElementsAre(0, 1));
}

TEST(Placement, UnknownPathCountsOnAllPaths) {
  Network network({.racks = 3, .hosts_per_rack = 2, .spines = 2});
  // Half a demand on each spine into rack 1; the flow from rack 2 takes spine 0.
  std::vector<PlacedFlow> flows = {network.FlowBetween(0, 2), network.FlowBetween(4, 3, 0),
                                   network.FlowBetween(5, 3)};
  flows[0].fixed = flows[1].fixed = true;
  network.Place(&flows);
  EXPECT_FALSE(flows[0].path.has_value());
  EXPECT_EQ(flows[2].path, PathIndex(1));
}

TEST(Placement, FlowStaysOnAllowedPaths) {
  Network network({});
  const std::vector<PathIndex> only = {PathIndex(1)};
  std::vector<PlacedFlow> flows = {network.FlowBetween(0, 2, 0), network.FlowBetween(1, 3)};
  for (PlacedFlow& flow : flows) flow.allowed = &only;
  EXPECT_EQ(network.Place(&flows), 1u);  // the first one was on a forbidden path
  EXPECT_THAT(PathsOf(flows), testing::ElementsAre(1, 1));
}

TEST(Placement, LastFlowsAvoidTheOthers) {
  Network network({.racks = 2, .hosts_per_rack = 3, .spines = 2});
  const std::vector<PathIndex> first_spine = {PathIndex(0)};
  std::vector<PlacedFlow> flows = {network.FlowBetween(0, 3), network.FlowBetween(1, 4),
                                   network.FlowBetween(2, 5)};
  flows[0].last = true;
  flows[1].allowed = flows[2].allowed = &first_spine;
  network.Place(&flows);
  EXPECT_THAT(PathsOf(flows), testing::ElementsAre(1, 0, 0));
}

TEST(Placement, WellPlacedFlowsStay) {
  Network network({.racks = 2, .hosts_per_rack = 4, .spines = 2});
  std::vector<PlacedFlow> flows = {network.FlowBetween(0, 4, 1), network.FlowBetween(1, 5, 1),
                                   network.FlowBetween(2, 6, 0), network.FlowBetween(3, 7, 0)};
  EXPECT_EQ(network.Place(&flows), 0u);
  EXPECT_THAT(PathsOf(flows), testing::ElementsAre(1, 1, 0, 0));
}

TEST(Placement, OneOfThreeLeavesAnOverloadedLink) {
  Network network({.racks = 2, .hosts_per_rack = 4, .spines = 2});
  std::vector<PlacedFlow> flows = {network.FlowBetween(0, 4, 0), network.FlowBetween(1, 5, 0),
                                   network.FlowBetween(2, 6, 0), network.FlowBetween(3, 7, 1)};
  EXPECT_EQ(network.Place(&flows), 1u);
  EXPECT_THAT(network.Rates(flows), testing::Each(50));
}

std::vector<PlacedFlow> RandomFlows(Network* network, int count, std::mt19937* random) {
  std::vector<PlacedFlow> flows;
  const auto any = [&] { return static_cast<int>((*random)() % network->nics()); };
  while (static_cast<int>(flows.size()) < count) {
    const int from = any(), to = any();
    if (from == to) continue;
    PlacedFlow flow = network->FlowBetween(from, to);
    if ((*random)() % 2 == 0)
      flow.path = PathIndex(static_cast<int32_t>((*random)() % flow.paths.size()));
    flow.fixed = (*random)() % 8 == 0;
    flows.push_back(flow);
  }
  return flows;
}

// For any input, a second run leaves the result unchanged.
TEST(Placement, ASecondRunMovesNothing) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    Network network({.racks = 2 + static_cast<int>(random() % 4),
                     .hosts_per_rack = 1 + static_cast<int>(random() % 4),
                     .nics_per_host = 1 + static_cast<int>(random() % 3),
                     .spines = 1 + static_cast<int>(random() % 5),
                     .nic_bps = 100,
                     .uplink_bps = 50 + random() % 150});
    std::vector<PlacedFlow> flows = RandomFlows(&network, 1 + random() % 120, &random);
    network.Place(&flows);
    const std::vector<PlacedFlow> placed = flows;
    EXPECT_EQ(network.Place(&flows), 0u);
    for (size_t f = 0; f < flows.size(); ++f) EXPECT_EQ(flows[f].path, placed[f].path);
  }
}

// A job of eight flows starts beside about a hundred others, and ends.
TEST(Placement, StartingOrEndingJobMovesFewOtherFlows) {
  constexpr size_t kJob = 8;
  size_t moved = 0, changes = 0;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    Network network({.racks = 8, .hosts_per_rack = 4, .nics_per_host = 4, .spines = 8});
    std::vector<PlacedFlow> flows = RandomFlows(&network, 200, &random);
    network.Place(&flows);
    std::vector<PlacedFlow> job = RandomFlows(&network, kJob, &random);
    flows.insert(flows.end(), job.begin(), job.end());
    for (size_t f = 200; f < flows.size(); ++f) flows[f].path.reset();
    moved += network.Place(&flows);
    flows.resize(200);
    moved += network.Place(&flows);
    changes += 2;
  }
  // On average fewer than the flows that start or end, of 200.
  std::cout << moved << " flows moved in " << changes << " changes\n";
  EXPECT_LT(moved, changes * kJob);
}

}  // namespace placement_test
}  // namespace mccs
