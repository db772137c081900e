// DSCP marks for switches that prioritize packets: production daemons over a simulated network that
// records the mark of each end of a stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service/pacing/rate_limits.h"
#include "tests/sim/scenario.h"

namespace mccs {
namespace dscp_marks_test {

using testing::Each;
using testing::UnorderedElementsAre;

TEST(ControlDscp, IsTheMarkOfTheHighestMarkedClass) {
  EXPECT_EQ(ControlDscp({}), 0);
  EXPECT_EQ(ControlDscp({0, 8, 0, 34, 0, 18, 0, 0}), 18);
}

std::vector<int> MarksOf(const SimNetwork& network) {
  std::vector<int> marks;
  for (const SimNetwork::StreamMark& end : network.marks()) marks.push_back(end.dscp);
  return marks;
}

void SetPriority(SimWorld& world, uint32_t priority, uint64_t revision) {
  for (int h : {0, 1}) {
    SimController& controller = world.host(h).controller();
    controller.rate_updates.push_back({world.host(0).controller().announced.back(),
                                       {.revision = revision, .priority = priority}});
  }
  world.RunFor(kNsPerMs);
}

// Two hosts: one control link, and one lane in each direction.
TEST(SimDscpMarks, ControlLinksHaveTheHighestMarkAndLanesTheirTenantsMark) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 2, .dscp_by_class = {0, 0, 0, 0, 0, 40, 0, 46}},
                               {0, 1}, 1 << 16);
  EXPECT_THAT(MarksOf(world.network()), UnorderedElementsAre(46, 46, 0, 0, 0, 0));
  SetPriority(world, 5, 1);
  EXPECT_THAT(MarksOf(world.network()), UnorderedElementsAre(46, 46, 40, 40, 40, 40));
  // A lane that is reopened has it, too.
  const std::string lane = world.host(0).controller().reports.begin()->second.lanes(0).local();
  ASSERT_TRUE(world.CutLane(lane));
  world.RunFor(kNsPerSec);
  EXPECT_THAT(MarksOf(world.network()), UnorderedElementsAre(46, 46, 40, 40, 40, 40));
}

// A rate update without limits changes nothing for a communicator that never had one.
TEST(SimDscpMarks, UpdateWithoutLimitsChangesNothing) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 2, .dscp_by_class = {10, 0, 0, 0, 0, 40, 0, 0}},
                               {0, 1}, 1 << 16);
  SetPriority(world, 0, 1);
  EXPECT_THAT(MarksOf(world.network()), UnorderedElementsAre(40, 40, 0, 0, 0, 0));
  SetPriority(world, 5, 2);
  EXPECT_THAT(MarksOf(world.network()), Each(40));
  SetPriority(world, 0, 3);
  EXPECT_THAT(MarksOf(world.network()), UnorderedElementsAre(40, 40, 10, 10, 10, 10));
}

// All streams before there are lanes.
TEST(SimDscpMarks, StreamsHaveTheControlMarkUntilTheyAreLanes) {
  SimWorld world({.seed = 1, .hosts = 2, .dscp_by_class = {0, 0, 0, 0, 0, 0, 0, 46}});
  SimJob job(world, {0, 1}, 1 << 16);
  EXPECT_FALSE(job.Begin() && job.Formed());
  size_t seen = 0;
  ASSERT_TRUE(world.RunUntil([&] {
    const std::vector<int> marks = MarksOf(world.network());
    const bool lanes = marks.size() > 2;
    if (!lanes && !marks.empty()) {
      ++seen;
      EXPECT_THAT(marks, Each(46));
    }
    return job.Formed();
  }));
  EXPECT_GT(seen, 0u);
}

// The leader's daemon may announce a Tenant that the processes of another host do not have there.
TEST(SimDscpMarks, AHostGivesNoHigherPriorityThanItsOwnTenantHas) {
  auto [world, job] = JobWorld(
      {.seed = 1, .hosts = 2, .dscp_by_class = {10, 0, 0, 0, 0, 40, 0, 46}}, {0, 1}, 1 << 16);
  world.host(0).controller().tenants = {{.name = "own",
                                         .selector = {.uids = {1000}, .sockets = {}, .cgroups = {}},
                                         .quotas = {},
                                         .priority = 5}};
  world.host(1).controller().tenants = {{.name = "own",
                                         .selector = {.uids = {7}, .sockets = {}, .cgroups = {}},
                                         .quotas = {},
                                         .priority = 5}};
  world.RunFor(kNsPerMs);
  SetPriority(world, 7, 1);
  // Control links; lanes out of host 0, where the Tenant selects the process; and out of host 1.
  EXPECT_THAT(MarksOf(world.network()), UnorderedElementsAre(46, 46, 40, 40, 0, 0));
}

TEST(SimDscpMarks, NothingIsMarkedByDefault) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 2}, {0, 1}, 1 << 16);
  SetPriority(world, 7, 1);
  EXPECT_THAT(MarksOf(world.network()), Each(0));
  EXPECT_EQ(MarksOf(world.network()).size(), 6u);
}

}  // namespace dscp_marks_test
}  // namespace mccs
