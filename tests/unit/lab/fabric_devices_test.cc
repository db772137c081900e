#include "lab/fabric_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/lab/small_fabric.h"
#include "topology/linux_multipath_hash.h"

namespace mccs::lab {
namespace fabric_devices_test {

using testing::HasSubstr;
using testing::Not;

// The node's value of sysctl `name`, or "-".
std::string Setting(const FabricPlan& plan, std::string_view node, const std::string& name) {
  for (const Sysctl& sysctl : SysctlsOf(plan, NodeNamed(plan, node))) {
    if (sysctl.name == name) return sysctl.value;
  }
  return "-";
}

TEST(FabricDevices, CreatesCablesBetweenNodes) {
  Topology topology = SmallTopology();
  topology.SetMtu(4000);
  const std::string lines =
      CableLines(SmallFabric(std::move(topology)), {100, 101, 102, 103, 104, 105, 106});
  EXPECT_THAT(lines, HasSubstr("link add name nic1 mtu 4000 netns 105 type veth"
                               " peer name p1 mtu 4000 netns 101\n"));
  // The management network.
  EXPECT_THAT(lines, HasSubstr("link add name mgmt mtu 9000 netns 106 type veth"
                               " peer name m1 mtu 9000 netns 100\n"));
}

TEST(FabricDevices, PortsHaveAliasesWithTheirPeers) {
  const FabricPlan plan = SmallFabric();
  EXPECT_THAT(DeviceLines(plan, NodeNamed(plan, "leaf0")),
              HasSubstr("link set dev p2 alias \"to spine0\" up\n"));
  EXPECT_THAT(DeviceLines(plan, NodeNamed(plan, "h2")),
              HasSubstr("address add 10.0.2.1/32 dev nic0\n"));
}

TEST(FabricDevices, LimitsTheRateAtBothEndsOfALink) {
  const FabricPlan plan = SmallFabric();
  EXPECT_THAT(QueueLines(plan, NodeNamed(plan, "h2")),
              HasSubstr("dev nic0 parent 1: classid 1:1 htb rate 100000000bit ceil 100000000bit"));
  EXPECT_THAT(QueueLines(plan, NodeNamed(plan, "spine0")),
              HasSubstr("dev p1 parent 1: classid 1:1 htb rate 50000000bit ceil 50000000bit"));
  EXPECT_THAT(QueueLines(plan, NodeNamed(plan, "h2")), Not(HasSubstr("mgmt")));
}

TEST(FabricDevices, SwitchesHashTheFiveTupleByAFixedSeed) {
  const FabricPlan plan = SmallFabric();
  EXPECT_EQ(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_policy"), "3");
  EXPECT_EQ(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_fields"), "55");
  EXPECT_NE(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_seed"), "0");
  EXPECT_NE(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_seed"),
            Setting(plan, "spine0", "net.ipv4.fib_multipath_hash_seed"));
  EXPECT_EQ(Setting(plan, "h1", "net.ipv4.fib_multipath_hash_seed"), "-");
}

TEST(FabricDevices, SwitchesUseTheTopologysHash) {
  Topology topology = SmallTopology();
  const SwitchId other = topology.AddSwitch("other", 9);
  topology.AddLink("other", other, *topology.FindSwitch("leaf0"), kMbps);
  SourcePortMapping mapping;
  mapping.kind = SourcePortMapping::Kind::kHash;
  mapping.hash = {.seed = 7, .fields = kHashSourcePort};
  topology.SetSourcePorts(mapping);
  const FabricPlan plan = SmallFabric(std::move(topology));
  EXPECT_EQ(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_seed"), "7");
  EXPECT_EQ(Setting(plan, "other", "net.ipv4.fib_multipath_hash_seed"), "9");
  EXPECT_EQ(Setting(plan, "leaf0", "net.ipv4.fib_multipath_hash_fields"), "16");
}

}  // namespace fabric_devices_test
}  // namespace mccs::lab
