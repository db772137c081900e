#include "lab/fabric_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lab/small_fabric.h"

namespace mccs::lab {
namespace fabric_plan_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Rejection(Topology topology) {
  absl::StatusOr<FabricPlan> plan = PlanFabric(std::move(topology));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(FabricPlan, CreatesNodesForManagementSwitchesAndHosts) {
  const FabricPlan plan = SmallFabric();
  std::vector<std::string> names;
  for (const FabricNode& node : plan.nodes) names.push_back(node.name);
  EXPECT_THAT(names, ElementsAre("controller", "leaf0", "leaf1", "spine0", "spine1", "h1", "h2"));
  EXPECT_EQ(plan.node(plan.NodeOf(*plan.topology.FindSwitch("spine1"))).name, "spine1");
  EXPECT_EQ(plan.node(plan.NodeOf(*plan.topology.FindHost("h2"))).name, "h2");
}

TEST(FabricPlan, CreatesACablePerLink) {
  const FabricPlan plan = SmallFabric();
  ASSERT_EQ(plan.cables.size(), 7u);
  const Cable& nic = plan.cables[1];
  EXPECT_EQ(plan.node(nic.a.node).name + " " + nic.a.device, "h1 nic1");
  EXPECT_EQ(plan.node(nic.b.node).name + " " + nic.b.device, "leaf0 p1");
  EXPECT_EQ(nic.a.name, "h1/nic1");
  const Cable& up = plan.cables[6];
  EXPECT_EQ(plan.node(up.a.node).name + " " + up.a.device, "leaf1 p2");
  EXPECT_EQ(plan.node(up.b.node).name + " " + up.b.device, "spine1 p1");
  EXPECT_EQ(up.rate_bps, 50 * kMbps);
  EXPECT_EQ(plan.Tail(ForwardArc(LinkId(6))).name, "leaf1");
  EXPECT_EQ(plan.Tail(BackwardArc(LinkId(6))).name, "spine1");
}

TEST(FabricPlan, NicsUseTheFilesOrGeneratedAddresses) {
  Topology topology = SmallTopology();
  topology.AddNic(*topology.FindHost("h2"), "nic1", *topology.FindSwitch("leaf1"), kMbps,
                  "192.168.7.9");
  const FabricPlan plan = SmallFabric(std::move(topology));
  EXPECT_THAT(plan.nic_addresses, ElementsAre("10.0.1.1", "10.0.1.2", "10.0.2.1", "192.168.7.9"));
  EXPECT_EQ(plan.node(NodeNamed(plan, "h2")).address, "10.0.2.1");
  EXPECT_EQ(plan.node(NodeNamed(plan, "leaf0")).address, "10.255.0.1");
  EXPECT_EQ(ManagementAddressOf(HostId(0)), "172.31.0.2");
  EXPECT_THAT(HostsFile(plan),
              AllOf(HasSubstr("127.0.0.1 localhost\n"), HasSubstr("10.0.2.1 h2\n"),
                    HasSubstr("172.31.0.1 controller\n"), HasSubstr("10.255.0.4 spine1\n")));
}

TEST(FabricPlan, SwitchUsesItsFirstAddressInTheFile) {
  Topology topology = SmallTopology();
  topology.AddAddress(*topology.FindSwitch("leaf1"), "192.168.9.1");
  topology.AddAddress(*topology.FindSwitch("leaf1"), "192.168.9.2");
  const FabricPlan plan = SmallFabric(std::move(topology));
  EXPECT_EQ(plan.node(NodeNamed(plan, "leaf1")).address, "192.168.9.1");
  EXPECT_EQ(plan.node(NodeNamed(plan, "spine0")).address, "10.255.0.3");

  Topology twice = SmallTopology();
  twice.AddAddress(*twice.FindSwitch("leaf1"), "10.255.0.1");  // generated for leaf0
  EXPECT_THAT(Rejection(std::move(twice)),
              HasSubstr("leaf1 and leaf0 have the same address 10.255.0.1"));
}

TEST(FabricPlan, RejectsUnsupportedAddresses) {
  for (const auto& [address, reason] :
       {std::pair("fd00::1", "is not IPv4"),
        {"10.255.3.4", "is in 10.255.0.0/16"},
        {"172.31.0.9", "is in 172.31.0.0/16"},
        {"10.0.2.1", "h2/nic1 and h2/nic0 have the same address 10.0.2.1"}}) {
    Topology topology = SmallTopology();
    topology.AddNic(*topology.FindHost("h2"), "nic1", *topology.FindSwitch("leaf1"), kMbps,
                    address);
    EXPECT_THAT(Rejection(std::move(topology)), HasSubstr(reason));
  }
}

TEST(FabricPlan, RejectsInvalidDeviceNames) {
  for (const char* name : {"lo", "mgmt", "an-interface-too-long"}) {
    Topology topology = SmallTopology();
    topology.AddNic(*topology.FindHost("h2"), name, *topology.FindSwitch("leaf1"), kMbps);
    EXPECT_THAT(Rejection(std::move(topology)), HasSubstr("is not a valid device name"));
  }
  Topology topology = SmallTopology();
  topology.AddNic(topology.AddHost("controller", *topology.FindRack("r0"), 1), "nic0",
                  *topology.FindSwitch("leaf1"), kMbps);
  EXPECT_THAT(Rejection(std::move(topology)), HasSubstr("the controller's node"));
}

TEST(FabricPlan, RejectsTooManyHosts) {
  Topology topology = SmallTopology();
  for (int i = 10; i < 80; ++i) {
    topology.AddNic(topology.AddHost("h" + std::to_string(i), *topology.FindRack("r0"), 1), "nic0",
                    *topology.FindSwitch("leaf0"), kMbps);
  }
  EXPECT_THAT(Rejection(std::move(topology)), HasSubstr("72 hosts; a lab can have at most 64"));
}

}  // namespace fabric_plan_test
}  // namespace mccs::lab
