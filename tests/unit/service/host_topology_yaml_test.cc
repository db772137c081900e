#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/machine_parts.h"
#include "topology/topology_reader.h"

namespace mccs {
namespace host_topology_yaml_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

MachineParts TwoAndTwo() {
  MachineParts parts;
  parts.gpus = {{"0000:11:00.0"}, {"0000:21:00.0"}};
  parts.nics = {{"eth0", "10.0.0.1", 25'000'000'000, 9000, true, {0}},
                {"eth1", "10.0.1.1", 100'000'000, 9000, true, {1}},
                {"docker0", "172.17.0.1", 0, 1500, false, {}}};
  parts.has_distances = true;
  return parts;
}

// Parses the text in a Topology, as an operator would paste it, with a switch.
absl::StatusOr<Topology> Paste(const std::string& hosts) {
  return ParseTopology(
      absl::StrCat("apiVersion: mccs/v1\nkind: Topology\nmetadata: {name: t}\nspec:\n"
                   "  racks: [{name: r7}]\n  switches: [{name: leaf0}]\n  hosts:\n",
                   hosts),
      "t.yaml");
}

TEST(HostTopologyYaml, IsReadAsPartOfATopology) {
  const std::string text =
      HostTopologyYaml({.host = "node-17", .rack = "r7", .configured_gpus = 2}, TwoAndTwo());
  EXPECT_FALSE(Paste(text).ok()) << "the switch is a placeholder";
  const auto topology = Paste(absl::StrReplaceAll(text, {{"SWITCH", "leaf0"}}));
  ASSERT_TRUE(topology.ok()) << topology.status() << "\n" << text;
  const auto nic = topology->FindNic("node-17/eth0");
  ASSERT_TRUE(nic.has_value());
  EXPECT_EQ(topology->nic(*nic).address, "10.0.0.1");
  EXPECT_EQ(topology->nic(*nic).near_gpus.size(), 1u);
  EXPECT_EQ(topology->link(topology->nic(*nic).link).capacity_bps, 25'000'000'000u);
  EXPECT_EQ(topology->link(topology->nic(*topology->FindNic("node-17/eth1")).link).capacity_bps,
            100'000'000u);
  EXPECT_FALSE(topology->FindNic("node-17/docker0").has_value());
  EXPECT_EQ(topology->gpus().size(), 2u);
}

TEST(HostTopologyYaml, MarksWhatItCannotDetect) {
  MachineParts parts;
  parts.nics = {{"eth0", "10.0.0.1", 0, 0, false, {}}};
  const std::string text = HostTopologyYaml({.host = "h", .rack = "", .configured_gpus = 8}, parts);
  for (const char* said :
       {"rack: RACK", "capacity: SPEED", "No NVIDIA GPU", "    gpus: 8\n", "switch: SWITCH"}) {
    EXPECT_THAT(text, HasSubstr(said));
  }
  EXPECT_THAT(text, Not(HasSubstr("near_gpus")));
  EXPECT_THAT(text, Not(HasSubstr("MTU")));
  const auto faults = Paste(text).status();
  EXPECT_THAT(std::string(faults.message()), HasSubstr("SPEED"));
}

TEST(HostTopologyYaml, OmitsUnknownDistances) {
  MachineParts parts = TwoAndTwo();
  parts.has_distances = false;
  const std::string text =
      HostTopologyYaml({.host = "h", .rack = "r7", .configured_gpus = 8}, parts);
  EXPECT_THAT(text, HasSubstr("near_gpus is unknown"));
  EXPECT_THAT(text, HasSubstr("configuration: 8"));
  EXPECT_TRUE(Paste(absl::StrReplaceAll(text, {{"SWITCH", "leaf0"}})).ok());
}

TEST(HostTopologyYaml, PrintsTheMtuIfAllNicsHaveIt) {
  MachineParts parts = TwoAndTwo();
  const auto text = [&] { return HostTopologyYaml({.host = "h", .rack = "r7"}, parts); };
  EXPECT_THAT(text(), HasSubstr("MTU of 9000"));
  parts.nics[1].mtu_bytes = 1500;
  EXPECT_THAT(text(), Not(HasSubstr("MTU")));
}

TEST(HostTopologyYaml, ReportsAHostWithoutANetwork) {
  EXPECT_THAT(HostTopologyYaml({.host = "h", .rack = "r7", .configured_gpus = 1}, {}),
              HasSubstr("No network interface except loopback"));
}

}  // namespace host_topology_yaml_test
}  // namespace mccs
