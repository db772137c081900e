#include "controller/work_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/objects/change.h"
#include "controller/objects/read_objects.h"
#include "tests/unit/controller/announcements.h"

namespace mccs {
namespace {

using testing::ElementsAre;

// Two racks, two spines; ports decide which spine.
constexpr char kTopology[] = R"(apiVersion: mccs/v1
kind: Topology
metadata: {name: fabric}
spec:
  racks: [{name: "r[0-1]"}]
  switches: [{name: "leaf[0-1],spine[0-1]"}]
  hosts:
    - {name: h0, rack: r0, gpus: 1, nics: [{name: nic0, switch: leaf0, capacity: 10Gbps}]}
    - {name: h1, rack: r1, gpus: 1, nics: [{name: nic0, switch: leaf1, capacity: 10Gbps}]}
  links: [{between: ["leaf[0-1]", "spine[0-1]"], capacity: 10Gbps}]
  source_ports:
    mapping: rules
    rules: [{ports: 61000-61099, via: spine0}, {ports: 61100-61199, via: spine1}]
)";

class WorkViewTest : public testing::Test {
 protected:
  WorkViewTest() {
    EXPECT_TRUE(
        registry_.Register(AgentKey(1), Registration(MakeHost("h0")).registration(), 0).ok());
    EXPECT_TRUE(
        registry_.Register(AgentKey(2), Registration(MakeHost("h1")).registration(), 0).ok());
    EXPECT_TRUE(registry_.Announce("h0", MakeAnnounce(7, {"h0", "h1"}), 0).ok());
  }
  ObjectSet Objects(const std::string& text) {
    auto read = ReadObjects({{"t.yaml", text}});
    EXPECT_TRUE(read.ok()) << read.status();
    auto planned = PlanApply({}, *std::move(read));
    EXPECT_TRUE(planned.ok()) << planned.status();
    return planned->next;
  }
  void Report(const std::string& host, int from, int to, uint16_t port,
              const std::string& state = "up") {
    agent::Report report = Reporting(7, 1).report();
    report.set_measured_ns(5);
    agent::KindWork* work = report.add_work();
    work->set_kind("all_reduce");
    work->set_operations(3);
    agent::Lane* lane = report.add_lanes();
    lane->set_from(from);
    lane->set_to(to);
    lane->set_local("10.0.0.1:" + std::to_string(port));
    lane->set_remote("10.0.0.2:7400");
    lane->set_state(state);
    registry_.Report(host, report);
  }
  control::CommunicatorWork Show(const ObjectSet& objects) {
    return ShowWork(ListWork(registry_), objects, nullptr).communicators(0);
  }

  Registry registry_;
};

TEST_F(WorkViewTest, LinksAreThoseOfTheTopologyWhereItKnows) {
  Report("h0", 0, 1, 61050);
  Report("h1", 1, 0, 61150);
  const control::CommunicatorWork work = Show(Objects(kTopology));
  EXPECT_TRUE(work.links_by_topology());
  EXPECT_THAT(work.links(), ElementsAre("h0/nic0-leaf0", "h1/nic0-leaf1", "leaf0-spine0",
                                        "leaf0-spine1", "leaf1-spine0", "leaf1-spine1"));
  EXPECT_EQ(work.hosts(0).work(0).operations(), 3u);
  EXPECT_EQ(work.hosts(0).measured_ns(), 5);
}

TEST_F(WorkViewTest, ElseTheyArePairsOfHosts) {
  Report("h0", 0, 1, 40000);  // no rule
  Report("h1", 1, 0, 61150);
  for (const ObjectSet& objects : {Objects(kTopology), ObjectSet()}) {
    const control::CommunicatorWork work = Show(objects);
    EXPECT_FALSE(work.links_by_topology());
    EXPECT_THAT(work.links(), ElementsAre("h0 → h1", "h1 → h0"));
  }
}

TEST_F(WorkViewTest, ALaneThatIsDownIsNotInUse) {
  Report("h0", 0, 1, 61050, "lane stalled: not connected yet");
  EXPECT_EQ(Show(Objects(kTopology)).links_size(), 0);
  Report("h0", 0, 7, 61050);  // of a host that there is not
  EXPECT_EQ(Show(Objects(kTopology)).links_size(), 0);
}

}  // namespace
}  // namespace mccs
