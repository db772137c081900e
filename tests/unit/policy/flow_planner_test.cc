#include "controller/policy/flow_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/policy/rings.h"
#include "tests/unit/policy/clusters.h"

namespace mccs {
namespace flow_planner_test {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Plans all communicators of `view`, in locality order, and applies the result. Returns the number
// of moved flows.
size_t PlanAll(ClusterView* view, const FlowOptions& options = {}) {
  const Fabrics fabrics(*view);
  SourcePorts taken;
  for (const CommunicatorView& each : view->communicators) taken.TakeAll(each);
  FlowPlanner planner(&fabrics, &taken);
  for (const CommunicatorView& each : view->communicators) {
    const absl::Status status = planner.Add(
        each, MakeFrame(each, LocalityRingOrder(*view, each), HostsOf(fabrics, each), "test"),
        options);
    EXPECT_TRUE(status.ok()) << status;
  }
  for (auto& planned : planner.Solve()) {
    EXPECT_EQ(planned.off_path, 0);
    for (CommunicatorView& each : view->communicators) {
      if (each.id == planned.id) each.strategy = std::move(planned.strategy);
    }
  }
  return planner.moved();
}

// The paths of all flows of a communicator, by channel, around the ring.
std::vector<int> PathsOf(const ClusterView& view, const CommunicatorView& communicator) {
  const Fabrics fabrics(view);
  const auto hosts = HostsOf(fabrics, communicator);
  const auto flows = FlowsOf(communicator, communicator.strategy, hosts);
  EXPECT_TRUE(flows.ok()) << flows.status();
  std::vector<int> paths;
  for (const Flow& flow : *flows) {
    const auto path = hosts[0]->fabric->ports().PathOf(flow.Ends(), flow.source_port);
    paths.push_back(path.ok() && *path ? (*path)->value() : -1);
  }
  return paths;
}

// The paper's testbed: two racks of two hosts with two NICs, two spines.
ClusterView Testbed() {
  return ViewOf(RoutedLeafSpine({.racks = 2, .hosts_per_rack = 2, .nics_per_host = 2}));
}

TEST(FlowPlanner, TheChannelsOfOneJobTakeDifferentSpines) {
  ClusterView view = Testbed();
  AddCommunicator(&view, 1, "a", {"h2", "h0", "h1", "h3"}, {0, 1});
  PlanAll(&view);
  const CommunicatorView& job = view.communicators[0];
  EXPECT_THAT(job.strategy.channels(0).ring(), ElementsAre(1, 2, 0, 3));  // h0, h1, h2, h3
  const std::vector<int> paths = PathsOf(view, job);
  ASSERT_EQ(paths.size(), 8u);
  EXPECT_NE(paths[1], paths[5]);  // h1 to h2, of both channels
  EXPECT_NE(paths[3], paths[7]);  // h3 to h0
}

TEST(FlowPlanner, SecondPlanChangesNothing) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    ClusterView view = ViewOf(RoutedLeafSpine({.racks = 4,
                                               .hosts_per_rack = 3,
                                               .nics_per_host = 2,
                                               .spines = 1 + static_cast<int>(random() % 4)}));
    for (uint64_t id = 1; id <= 12; ++id) {
      std::set<std::string> hosts;
      while (hosts.size() < 2 + random() % 5) hosts.insert(absl::StrCat("h", random() % 12));
      AddCommunicator(&view, id, absl::StrCat("t", random() % 3), {hosts.begin(), hosts.end()},
                      random() % 2 == 0 ? std::vector<int>{0, 1} : std::vector<int>{1});
      PlanAll(&view);
    }
    const ClusterView before = view;
    EXPECT_EQ(PlanAll(&view), 0u);
    std::set<std::tuple<std::string, std::string, uint32_t>> flows;
    for (size_t i = 0; i < view.communicators.size(); ++i) {
      const strategy::Strategy& again = view.communicators[i].strategy;
      EXPECT_EQ(again.SerializeAsString(), before.communicators[i].strategy.SerializeAsString());
      for (const auto& channel : again.channels()) {
        for (int p = 0; p < channel.ring_size(); ++p) {
          const auto& hosts = view.communicators[i].hosts;
          const int next = (p + 1) % channel.ring_size();
          EXPECT_TRUE(flows
                          .insert({hosts[channel.ring(p)], hosts[channel.ring(next)],
                                   channel.source_ports(p)})
                          .second);
        }
      }
    }
  }
}

TEST(FlowPlanner, EndedJobMovesNoWellPlacedFlows) {
  ClusterView view = Testbed();
  AddCommunicator(&view, 1, "a", {"h0", "h2"}, {0});
  AddCommunicator(&view, 2, "b", {"h1", "h3"}, {0});
  PlanAll(&view);
  EXPECT_NE(PathsOf(view, view.communicators[0]), PathsOf(view, view.communicators[1]));
  const std::vector<int> second = PathsOf(view, view.communicators[1]);
  view.communicators.erase(view.communicators.begin());
  EXPECT_EQ(PlanAll(&view), 0u);
  EXPECT_EQ(PathsOf(view, view.communicators[0]), second);
}

TEST(FlowPlanner, FlowsAvoidAFixedOne) {
  ClusterView view = Testbed();
  AddCommunicator(&view, 1, "a", {"h0", "h2"}, {0});
  AddCommunicator(&view, 2, "b", {"h1", "h3"}, {0});
  for (const uint32_t port : {61000u, 63999u}) {
    auto* fixed = view.communicators[0].strategy.mutable_channels(0);
    fixed->clear_source_ports();
    fixed->add_source_ports(port);
    fixed->add_source_ports(port);
    const Fabrics fabrics(view);
    SourcePorts taken;
    taken.TakeAll(view.communicators[0]);
    FlowPlanner planner(&fabrics, &taken);
    planner.AddFixed(view.communicators[0], view.communicators[0].strategy);
    CommunicatorView& other = view.communicators[1];
    ASSERT_TRUE(
        planner
            .Add(other,
                 MakeFrame(other, LocalityRingOrder(view, other), HostsOf(fabrics, other), ""), {})
            .ok());
    const auto planned = planner.Solve();
    ASSERT_EQ(planned.size(), 1u);
    CommunicatorView placed = other;
    placed.strategy = planned[0].strategy;
    EXPECT_THAT(PathsOf(view, placed), Each(port == 61000u ? 1 : 0));
  }
}

TEST(FlowPlanner, AvoidsLinksWhileAnotherPathExists) {
  ClusterView view = Testbed();
  AddCommunicator(&view, 1, "a", {"h0", "h2"}, {0, 1});
  PlanAll(&view, {.avoid_links = {"leaf0-spine0", "leaf1-spine0"}});
  EXPECT_THAT(PathsOf(view, view.communicators[0]), Each(1));
  PlanAll(&view, {.avoid_links = {"leaf0-spine0", "leaf0-spine1"}});
  EXPECT_THAT(PathsOf(view, view.communicators[0]), testing::Contains(0));
}

TEST(FlowPlanner, FlowsLeaveADrainedLink) {
  ClusterView view = Testbed();
  AddCommunicator(&view, 1, "a", {"h0", "h2"}, {0, 1});
  PlanAll(&view);
  view.links_drained = {"leaf1-spine0"};
  EXPECT_EQ(PlanAll(&view), 2u);
  EXPECT_THAT(PathsOf(view, view.communicators[0]), Each(1));
  view.links_drained = {"leaf1-spine0", "leaf1-spine1"};  // no other path
  EXPECT_EQ(PlanAll(&view), 2u);
}

TEST(FlowPlanner, SkipsLinksThatAreDown) {
  ClusterView view = Testbed();
  AddCommunicator(&view, 1, "a", {"h0", "h2"}, {0, 1});
  view.links_down = {"leaf1-spine0"};
  PlanAll(&view);
  EXPECT_THAT(PathsOf(view, view.communicators[0]), Each(0));  // the only one
}

TEST(FlowPlanner, PortsStayWithinThePolicysRange) {
  ClusterView view = Testbed();
  AddCommunicator(&view, 1, "a", {"h0", "h2"}, {0, 1});
  PlanAll(&view, {.ports = SourcePortRange{62990, 63009}});
  std::set<uint32_t> ports;
  for (const auto& channel : view.communicators[0].strategy.channels())
    ports.insert(channel.source_ports().begin(), channel.source_ports().end());
  EXPECT_GE(*ports.begin(), 62990u);
  EXPECT_LE(*ports.rbegin(), 63009u);
  EXPECT_EQ(ports.size(), 4u);
}

TEST(FlowPlanner, ReportsWhyNoPathIsKnown) {
  const auto add = [](const ClusterView& view) {
    const Fabrics fabrics(view);
    SourcePorts taken;
    FlowPlanner planner(&fabrics, &taken);
    const CommunicatorView& job = view.communicators[0];
    const absl::Status status = planner.Add(
        job, MakeFrame(job, LocalityRingOrder(view, job), HostsOf(fabrics, job), ""), {});
    EXPECT_THAT(planner.Solve(), IsEmpty());
    return std::string(status.message());
  };
  ClusterView view = Testbed();
  AddCommunicator(&view, 1, "a", {"h0", "elsewhere"});
  EXPECT_THAT(add(view), HasSubstr("no Topology has host elsewhere"));

  auto probed = std::make_shared<Topology>(LeafSpine({}));
  view = ViewOf(probed);
  AddCommunicator(&view, 1, "a", {"h0", "h2"});
  EXPECT_THAT(add(view), HasSubstr("by probing"));
}

TEST(FlowPlanner, OneHostHasNoLanes) {
  ClusterView view = Testbed();
  AddCommunicator(&view, 1, "a", {"h0"});
  PlanAll(&view);
  EXPECT_THAT(view.communicators[0].strategy.channels(0).source_ports(), IsEmpty());
}

}  // namespace flow_planner_test
}  // namespace mccs
