#include "controller/api/work_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/api/explanation.h"
#include "controller/api/operator_view.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace work_view_test {

using testing::ElementsAre;

const std::string kTopology = TwoSpinesDocument("h0", "h1");

class WorkViewTest : public testing::Test {
 protected:
  WorkViewTest() {
    EXPECT_TRUE(
        state_.registry.Register(AgentKey(1), Registration(MakeHost("h0")).registration(), 0).ok());
    EXPECT_TRUE(
        state_.registry.Register(AgentKey(2), Registration(MakeHost("h1")).registration(), 0).ok());
    EXPECT_TRUE(state_.registry.Announce("h0", MakeAnnounce(7, {"h0", "h1"}), 0).ok());
  }
  void Report(const std::string& host, int from, int to, uint16_t port,
              const std::string& state = "up") {
    agent::v1::Report report = ReportingLane(7, from, to, port, state).reports().complete(0);
    report.add_work()->set_operations(3);
    state_.registry.Report(host, report);
  }
  // The only communicator's work under these objects.
  control::v1::CommunicatorWork Show(const std::string& objects) {
    state_.objects = std::make_shared<ObjectSet>(After({}, objects));
    return ShowWork(GatherWork(state_, nullptr), *state_.objects).communicators(0);
  }

  ClusterState state_;
};

TEST_F(WorkViewTest, ShowsLinksOfTheTopology) {
  Report("h0", 0, 1, 61050);
  Report("h1", 1, 0, 61150);
  const control::v1::CommunicatorWork work = Show(kTopology);
  EXPECT_TRUE(work.pairs().empty());
  EXPECT_THAT(work.links(), ElementsAre("h0/nic0-leaf0", "h1/nic0-leaf1", "leaf0-spine0",
                                        "leaf0-spine1", "leaf1-spine0", "leaf1-spine1"));
  EXPECT_EQ(work.hosts(0).work(0).operations(), 3u);
  EXPECT_EQ(work.hosts(0).measured_ns(), 5);
}

// Lanes of trees and direct plans are like this, beside a ring's.
TEST_F(WorkViewTest, ShowsPairsOfHostsForUnknownPaths) {
  Report("h0", 0, 1, 40000);  // no rule for this port
  Report("h1", 1, 0, 61150);
  const control::v1::CommunicatorWork known = Show(kTopology);
  EXPECT_THAT(known.links(),
              ElementsAre("h0/nic0-leaf0", "h1/nic0-leaf1", "leaf0-spine1", "leaf1-spine1"));
  EXPECT_THAT(known.pairs(), ElementsAre("h0 → h1"));
  const control::v1::CommunicatorWork unknown = Show("");
  EXPECT_TRUE(unknown.links().empty());
  EXPECT_THAT(unknown.pairs(), ElementsAre("h0 → h1", "h1 → h0"));
}

// As in `explain`: the Topology's description of the host is wrong.
TEST_F(WorkViewTest, ShowsNoLinksForAMismatchedHost) {
  agent::v1::Host host = MakeHost("h0", "another-rack");
  ASSERT_TRUE(state_.registry.Register(AgentKey(3), Registration(host).registration(), 0).ok());
  ASSERT_TRUE(state_.registry.Announce("h0", MakeAnnounce(7, {"h0", "h1"}), 0).ok());
  Report("h0", 0, 1, 61050);
  EXPECT_TRUE(Show(kTopology).links().empty());
  EXPECT_THAT(Show(kTopology).pairs(), ElementsAre("h0 → h1"));
  const auto ground = GatherExplanation(state_, "0", 0);
  ASSERT_TRUE(ground.ok()) << ground.status();
  EXPECT_EQ(Explain(*ground, *state_.objects).flows(0).links_size(), 0);
}

TEST_F(WorkViewTest, ALaneThatIsDownIsNotInUse) {
  Report("h0", 0, 1, 61050, "lane stalled: not connected yet");
  EXPECT_EQ(Show(kTopology).links_size(), 0);
  Report("h0", 0, 7, 61050);  // of a host that does not exist
  EXPECT_EQ(Show(kTopology).links_size(), 0);
}

TEST_F(WorkViewTest, ShowsTheTenantObjectsName) {
  EXPECT_EQ(Show("").tenant(), "uid 1000");
  EXPECT_EQ(Show(TenantDocument("team-a", 1000)).tenant(), "team-a");
  EXPECT_EQ(ListCommunicators(state_, 0).communicators(0).tenant(), "team-a");
}

}  // namespace work_view_test
}  // namespace mccs
